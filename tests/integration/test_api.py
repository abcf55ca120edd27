"""The Python API on real processes, and the examples of its documentation."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import flametap
import receipt
from recording import ENOUGH_CPU_S
from running import Start, wait_until
from stacks import read_folded

pytestmark = pytest.mark.needs("attach", "gcc")

ROOT = Path(__file__).parents[2]
BURNS = "sum(i * i for i in range(3 * 10**6))"


def test_what_is_attached_to_is_recorded_and_left_as_it_was(start: Start, tmp_path: Path) -> None:
    target = start("ratio")
    before = receipt.take_at_rest(target.pid)
    with flametap.attach(target.pid, rate=250, budget=0) as live:
        wait_until(
            lambda: sum(each.cpu_s for each in live.recording.threads) >= ENOUGH_CPU_S, "CPU time"
        )
    assert receipt.harm_after_settling(target.pid, before) == []
    made = live.recording
    assert (made.pid, made.command) == (target.pid, live.recording.command)
    assert made.duration_s >= ENOUGH_CPU_S
    own_s = {each.name: each.own_s for each in made.functions()}
    assert own_s["heavy"] / (own_s["heavy"] + own_s["light"]) == pytest.approx(0.75, abs=0.1)
    tree = made.tree()
    assert tree.total_s == pytest.approx(sum(each.cpu_s for each in made.threads), rel=1e-6)
    assert tree.total_s == pytest.approx(sum(node.own_s for node in tree.walk()), rel=1e-6)
    path = tmp_path / "kept.flametap"
    made.save(path)
    kept = flametap.load(path)
    assert kept.functions("wall") == made.functions("wall")
    assert kept.tree("off-cpu") == made.tree("off-cpu")
    assert kept.timeline(20) == made.timeline(20)
    assert not any(change.grade for change in made.diff(kept))
    kept.export(tmp_path / "out.folded", thread="^ratio$")
    exported = sum(read_folded(tmp_path / "out.folded").weights.values())
    assert exported / 1e6 == pytest.approx(kept.tree(thread="^ratio$").total_s, rel=1e-3)
    target.finish()


def test_program_is_recorded_from_its_start_to_its_end(tmp_path: Path) -> None:
    made = flametap.record([sys.executable, "-c", f"print({BURNS})"], rate=250)
    assert "<genexpr>" in {each.name for each in made.functions()}
    assert made.started is not None
    first_s, rest_s = (
        made.tree(range=span).total_s
        for span in ((0, made.duration_s / 2), (made.duration_s / 2, None))
    )
    assert first_s + rest_s == pytest.approx(made.tree().total_s, rel=0.01)


@pytest.mark.parametrize(
    ("code", "word"),
    [
        ("flametap.load('/etc/passwd')", "is no recording"),
        ("flametap.load('/nowhere')", "cannot read /nowhere"),
        ("flametap.attach(2**22 + 1)", "there is no process"),
        ("flametap.record(['/nowhere'])", "cannot run /nowhere"),
        ("flametap.attach(1, rate=-1)", "rate"),
    ],
)
def test_bad_input_is_one_error(code: str, word: str) -> None:
    with pytest.raises(flametap.FlametapError, match=word):
        eval(code, {"flametap": flametap})


def test_import_loads_nothing_heavy() -> None:
    code = (
        "import sys, flametap\nflametap.FlametapError\n"
        "print({'frida', 'flask', 'numpy', 'click'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


def test_examples_of_the_documentation_run(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    target = start("ratio")
    known = {"pid": target.pid}
    text = (ROOT / "docs/python-api.md").read_text("utf-8")
    for example in re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        exec(example, known)
    assert (tmp_path / "today.html").stat().st_size > 10_000
    target.finish()


PLUGIN = ["-p", "flametap.api.pytest_plugin", "-p", "no:cacheprovider", "-q"]
TESTS = """
def work(n):
    return sum(i * i for i in range(n))

def test_short():
    assert work(300_000)

def test_long():
    assert work(6_000_000)
"""


def test_run_of_tests_is_recorded_with_the_time_of_each(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(TESTS)
    command = [sys.executable, "-m", "pytest", *PLUGIN, "--flametap=out", "--flametap-rate=250"]
    # An installed flametap has it loaded by itself.
    env = os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    done = subprocess.run(
        command, cwd=tmp_path, env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "most CPU time of their own" in done.stdout
    ranges = json.loads((tmp_path / "out/tests.json").read_text())
    made = flametap.load(tmp_path / "out/tests.flametap")
    span = tuple(ranges["test_it.py::test_long"])
    inside = {each.name: each.total_s for each in made.functions(range=span)}
    (work,) = (total_s for name, total_s in inside.items() if name == "work")
    assert work > 0.5 * made.tree(range=span, thread=made.pid).total_s
