"""What -v says of processes that an interpreter runs."""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from fakeproc import FakeProc, mapping
from flametap.cli import interpreter
from flametap.cli.interpreter import Interpreters, interpreter_lines, shown, shown_of
from flametap.symbols.interpreters import search
from flametap.symbols.interpreters.found import RUBY, FoundInterpreter
from flametap.symbols.interpreters.recipe import Recipe


@pytest.mark.parametrize(
    ("module", "says"),
    [
        ("libjvm.so", "Java: compiled methods are [jit], "),
        ("libjvm.so", "jcmd 7 Compiler.perfmap"),
        ("node", "start node with --perf-basic-prof"),
        ("python3.7", "Python 3.7: Python functions appear as the interpreter's C functions"),
        ("libpython2.7.so.1.0", "Python 2.7: "),
        ("libruby-3.1.so.3.1.2", "Ruby: Ruby methods appear as"),
        ("libpypy3.9-c.so", "PyPy: Python functions are not shown"),
        ("deno", "V8: compiled functions are [jit], "),
        ("beam.smp", "+JPperf true"),
        ("libmonosgen-2.0.so.1.0.0", "MONO_ENV_OPTIONS=--jitmap"),
        ("bun.exe", "Bun: JavaScript functions are not shown"),
        ("perl", "Perl: subroutines appear as"),
        ("php-fpm8.2", "PHP: PHP functions appear as"),
        ("libluajit-5.1.so.2.1.0", "LuaJIT: "),
        ("lua5.4", "Lua: "),
    ],
)
def test_own_functions(module: str, says: str) -> None:
    assert says in shown_of([module, "libc.so.6"], 7, has_map=False)


def test_python_that_uses_another_interpreter() -> None:
    # As dnf does: rpm's library loads Lua.
    assert shown_of(["liblua5.3.so.5.3.0", "python3.6"], 7, has_map=False).startswith("Python 3.6")


def test_perf_map_is_what_names_them() -> None:
    assert shown_of(["node"], 7, has_map=True) == "Node.js: its perf map names its functions"
    # Java's is written when asked for: later code is not in it.
    assert "jcmd" in shown_of(["libjvm.so"], 7, has_map=True)


@pytest.mark.parametrize(
    "module", ["nginx", "python-helper", "libpython.so", "libperlfoo.so", "lualatex"]
)
def test_other_programs(module: str) -> None:
    assert shown_of([module, "libc.so.6"], 7, has_map=False) == ""


def test_process_by_its_mappings(tmp_path: Path) -> None:
    fake = FakeProc(tmp_path)
    fake.process(7, maps=mapping(0x1000, 0x1000, "/usr/bin/python3.11"))
    (line,) = interpreter_lines(7, fake.proc)
    assert line.startswith("Python 3.11: ")
    assert interpreter_lines(8, fake.proc) == []


def test_interpreter_that_has_not_run_anything_is_said_once(tmp_path: Path) -> None:
    # As in Vim and WeeChat, which load Ruby for scripts that nobody has.
    fake = FakeProc(tmp_path)
    fake.process(7, maps=mapping(0x1000, 0x1000, "/usr/lib/libruby-3.1.so.3.1.2"))
    found = FoundInterpreter(0, RUBY, "Ruby 3.1.2", (3, 1), "/usr/lib/libruby-3.1.so", None)
    (line,) = interpreter_lines(7, fake.proc, Interpreters([found]))
    assert line == "Ruby 3.1.2: it has not run anything yet"


class Looks:
    """Of a process that lets us wait, or on a busy machine."""

    found = ()

    def __init__(self, *_: object) -> None:
        pass

    def look(self) -> None:
        """Take long."""
        raise NotImplementedError


class Stuck(Looks):
    def look(self) -> None:
        time.sleep(1)


class Slow(Looks):
    def look(self) -> None:
        end_s = time.thread_time() + 0.4
        while time.thread_time() < end_s:
            pass


@pytest.mark.parametrize(
    ("looks", "without_cpu_s", "says"),
    [(Stuck, 0.2, "is not known yet"), (Slow, 10.0, "are [jit]")],
)
def test_what_was_not_looked_at_is_not_known(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    looks: type[Looks],
    without_cpu_s: float,
    says: str,
) -> None:
    fake = FakeProc(tmp_path)
    fake.process(7, maps=mapping(0x1000, 0x1000, "/usr/lib/libjvm.so"))
    monkeypatch.setattr(search, "Interpreters", looks)
    monkeypatch.setattr(interpreter, "LOOK_TIMEOUT_S", without_cpu_s)
    monkeypatch.setattr(interpreter, "LOOK_INTERVAL_S", 0.001)
    (line,) = interpreter_lines(7, fake.proc)
    assert line.startswith("Java: ")
    assert says in line


@pytest.mark.needs("attach", "python3.12")
def test_python_by_its_memory(require_capability: Callable[[str], str]) -> None:
    python = require_capability("python3.12")
    program = [python, "-c", "print(1, flush=True); input()"]
    with subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"1\n"
        (line,) = interpreter_lines(child.pid)
        assert re.fullmatch(r"CPython 3\.12\.\d+: Python functions are shown", line)


@pytest.mark.parametrize(
    ("recipe", "note", "says"),
    [
        (Recipe({}), "", "CPython 3.13.0: Python functions are shown"),
        (
            Recipe({}),
            "CPython 3.13.0: a note",
            "CPython 3.13.0: Python functions are shown; a note",
        ),
        (None, "CPython 3.13.0: not known yet", "CPython 3.13.0: not known yet"),
        (None, "", "CPython 3.13.0: it has not run anything yet"),
    ],
)
def test_line_of_an_interpreter(recipe: Recipe | None, note: str, says: str) -> None:
    found = FoundInterpreter(1, "CPython", "CPython 3.13.0", (3, 13), "/x", recipe, note)
    assert shown(found) == says
