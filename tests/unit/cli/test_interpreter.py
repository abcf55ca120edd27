"""What -v says of processes that an interpreter runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from fakeproc import FakeProc, mapping
from flametap.cli.interpreter import interpreter_line, shown_of


@pytest.mark.parametrize(
    ("module", "says"),
    [
        ("libjvm.so", "Java: compiled methods are [jit], "),
        ("libjvm.so", "jcmd 7 Compiler.perfmap"),
        ("node", "start node with --perf-basic-prof"),
        ("python3.11", "Python 3.11: Python functions appear as the interpreter's C functions"),
        ("libpython2.7.so.1.0", "Python 2.7: "),
        ("python3.12", "start Python with -X perf"),
        ("libpython3.13.so.1.0", 'sys.activate_stack_trampoline("perf")'),
        ("libruby-3.1.so.3.1.2", "Ruby: Ruby methods appear as"),
    ],
)
def test_own_functions(module: str, says: str) -> None:
    assert says in shown_of([module, "libc.so.6"], 7, has_map=False)


def test_perf_map_is_what_names_them() -> None:
    assert shown_of(["node"], 7, has_map=True) == "Node.js: its perf map names its functions"
    # Java's is written when asked for: later code is not in it.
    assert "jcmd" in shown_of(["libjvm.so"], 7, has_map=True)


@pytest.mark.parametrize("module", ["nginx", "python-helper", "libpython.so"])
def test_other_programs(module: str) -> None:
    assert shown_of([module, "libc.so.6"], 7, has_map=False) == ""


def test_process_by_its_mappings(tmp_path: Path) -> None:
    fake = FakeProc(tmp_path)
    fake.process(7, maps=mapping(0x1000, 0x1000, "/usr/bin/python3.11"))
    assert interpreter_line(7, fake.proc).startswith("Python 3.11: ")
    assert interpreter_line(8, fake.proc) == ""
