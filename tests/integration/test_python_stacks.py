"""Stacks of Python programs: as the interpreter itself sees them, with the C functions between."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import cli
from flametap.analysis.views import views_of
from flametap.capture.live import Capture
from flametap.model import Clock, FrameKind, ManagedVerdict
from flametap.tree.calltree import build
from flametap.tree.frame_filter import FrameFilter, Language
from flametap.tree.selection import Selection
from python_targets import (
    ALL,
    PythonState,
    PythonTarget,
    python_of,
    python_state,
    waiting_python,
)
from recording import capturing, record
from running import Target, wait_until
from stacks import of_tree

__all__ = ["python_state", "waiting_python"]

pytestmark = pytest.mark.needs("attach")

SPLIT = Path(__file__).parents[1] / "targets" / "python_split.py"
DEEP = Path(__file__).parents[1] / "targets" / "python_deep.py"
DEPTH = 20_000
ENDING = Path(__file__).parents[1] / "targets" / "python_ending.py"
BRIEF = Path(__file__).parents[1] / "targets" / "python_brief.py"
# The C function that must lie between two Python functions.
BETWEEN = {"in_sort": "list_sort", "in_reduce": "functools_reduce", "in_generator": "builtin_sum"}
CPU_S = 2.0
ENDING_S = 60.0
BRIEF_SHARE = 0.9  # 0.79 where threads are found by rounds alone
# Six standard errors of the largest share at CPU_S and 1 kHz; the interpreter's handling of its
# lock adds a little.
SHARE_ERROR = 0.05


def python_stack(capture: Capture, thread_id: int) -> list[tuple[str, str, int]]:
    """The one stack of a thread that waits, leaf first: names, files and lines."""
    tree = build(
        capture.profile,
        capture.names,
        Clock.WALL,
        frozenset({thread_id}),
        frames=FrameFilter(Language.PYTHON),
    )
    frames = []
    for node in range(1, len(tree.parent)):
        function = tree.functions[tree.function[node]]
        assert tree.parent[node] == node - 1, "the thread has more than one stack"
        if function.kind is FrameKind.PYTHON:
            file = tree.line_files[tree.line_file[node]] or function.file
            frames.append((function.name, file, int(tree.line[node])))
    return frames[::-1]


@pytest.mark.parametrize("waiting_python", ALL, indirect=True)
def test_waiting_threads_have_the_frames_that_the_interpreter_sees(
    waiting_python: PythonTarget,
) -> None:
    with capturing(waiting_python.pid, rate_hz=100) as capture:
        wait_until(
            lambda: (
                len(capture.profile.thread_infos()) > len(waiting_python.stacks)
                and all(thread.wall_ns for thread in capture.profile.thread_infos())
            ),
            "a stack of each thread",
        )
        capture.stop()
        capture.finish_symbols(60)
        seen = Counter(
            tuple(python_stack(capture, thread.thread_id))
            for thread in capture.profile.thread_infos()
            if thread.tid != waiting_python.pid
        )
        verdicts = capture.profile.verdicts().managed
    expected = Counter(
        tuple((qualified or name, file, line) for name, qualified, file, line, _ in frames)
        for frames in waiting_python.stacks.values()
    )
    if not next(iter(waiting_python.stacks.values()))[0][1]:  # before 3.11: no qualified names
        seen = Counter(
            {
                tuple((name.rpartition(".")[2], file, line) for name, file, line in stack): count
                for stack, count in seen.items()
            }
        )
    assert seen == expected
    assert verdicts.keys() <= {ManagedVerdict.EXACT.name}


@pytest.mark.parametrize("python_state", ["3.8", "3.11", "3.13"], indirect=True)
def test_dump_has_names_variables_and_tasks(python_state: PythonState) -> None:
    result = cli.run("dump", "--json", "--locals", python_state.pid)
    result.assert_saved()
    document = json.loads(result.stdout)
    threads = {thread["tid"]: thread for thread in document["threads"]}
    assert {tid: thread["name"] for tid, thread in threads.items()} == python_state.names
    for tid, said in python_state.variables.items():
        assert (threads[tid]["gil"], threads[tid]["locals_missing_because"]) == ("none", None)
        frames = [f for f in threads[tid]["frames_leaf_first"] if f["kind"] == "python"]
        assert len(frames) == len(said)
        for frame, (_, variables) in zip(frames, said, strict=True):
            assert {each["name"] for each in frame["locals"]} == (variables or {}).keys()
            assert "locals_missing_because" not in frame
    (loop,) = document["event_loops"]
    assert {task["name"] for task in loop["tasks"]} == python_state.tasks.keys()


@pytest.fixture(params=ALL)
def split(
    request: pytest.FixtureRequest, require_capability: Callable[[str], str]
) -> Iterator[Target]:
    """A Python of each version that spends its time in a known ratio."""
    name = "python" if request.param == "debian" else f"python{request.param}"
    target = Target([require_capability(name), SPLIT])
    yield target
    target.close()


@pytest.mark.parametrize("waiting_python", ALL, indirect=True)
def test_doctor_names_the_interpreter(waiting_python: PythonTarget) -> None:
    result = cli.run("doctor", waiting_python.pid, "--json")
    (found,) = json.loads(result.stdout)["interpreters"]
    assert found["runtime"] == "CPython"
    if waiting_python.name != "debian":
        version = waiting_python.name.rstrip("t")
        assert found["version"].startswith(f"CPython {version}.")
        assert ("free-threaded" in found["version"]) == waiting_python.name.endswith("t")
    assert found["functions_shown"] is True
    assert Path(found["module"]).name.startswith(("python", "libpython"))


def test_shares_are_those_that_the_program_measures(split: Target) -> None:
    capture = record(split.pid, 1.0, cpu_s=CPU_S)
    lines = split.finish()
    spent = {name: float(value) for name, value in (part.split("=") for part in lines[-1].split())}
    tree = views_of(capture.recording).tree(Selection(Clock.CPU))
    shown = of_tree(tree)
    total = sum(shown.under(name) for name in spent)
    assert total >= 0.9 * shown.total, shown.heaviest()  # the rest is the program's bookkeeping
    for name, seconds in spent.items():
        share = seconds / sum(spent.values())
        assert shown.under(name) / total == pytest.approx(share, abs=SHARE_ERROR), name
    # C functions stand where they were called.
    for name, between in BETWEEN.items():
        stacks = [stack for stack in shown.weights if name in stack and "work" in stack]
        assert stacks, name
        if split_has_symbols(shown.names()):
            for stack in stacks:
                inner = stack[stack.index(name) : stack.index("work")]
                assert any(part.startswith(between) for part in inner), stack
    assert_whole(capture)


@pytest.mark.parametrize("version", ALL)
def test_of_a_deep_recursion_the_innermost_functions_are_shown(
    version: str, require_capability: Callable[[str], str]
) -> None:
    target = Target([python_of(version, require_capability), DEEP, str(DEPTH)])
    try:
        capture = record(target.pid, 0.5, rate_hz=200, cpu_s=0.5)
        target.finish()
    finally:
        target.close()
    shown = of_tree(views_of(capture.recording).tree(Selection(Clock.CPU)))
    innermost = shown.where(lambda stack: "bottom" in stack and stack.count("deep") > 500)
    assert innermost.total >= 0.9 * shown.total, shown.heaviest(2)
    for stack in innermost.weights:
        assert stack[stack.index("bottom") - 1] == "deep"
    verdicts = capture.profile.verdicts().managed
    assert verdicts[ManagedVerdict.DEPTH.name] >= 0.9 * sum(verdicts.values()), verdicts


@pytest.mark.nightly  # how many are found depends on when the sampler gets a CPU
@pytest.mark.parametrize("version", ALL)
def test_threads_that_live_for_milliseconds_have_their_functions(
    version: str, require_capability: Callable[[str], str]
) -> None:
    """They compute without the GIL: only the list of thread states leads to their frames."""
    target = Target([python_of(version, require_capability), BRIEF])
    try:
        capture = record(target.pid, 1.0, rate_hz=500, cpu_s=1.0)
    finally:
        target.close()
    shown = of_tree(views_of(capture.recording).tree(Selection(Clock.CPU)))
    computing = shown.where(lambda stack: any("pbkdf2" in name.lower() for name in stack))
    assert computing.total >= 0.5 * shown.total, shown.heaviest()
    assert computing.share("brief") >= BRIEF_SHARE, computing.heaviest()


@pytest.mark.parametrize("version", ALL)
def test_functions_are_shown_while_the_interpreter_ends(
    version: str, require_capability: Callable[[str], str]
) -> None:
    target = Target([python_of(version, require_capability), ENDING])
    try:
        with capturing(target.pid) as capture:
            target.close_input()
            assert capture.wait(ENDING_S), "the target does not end"
            capture.finish_symbols(60)
        assert target.finish() == []
    finally:
        target.close()
    shown = of_tree(views_of(capture.recording).tree(Selection(Clock.CPU)))
    finalizer = shown.where(lambda stack: any(name.endswith("__del__") for name in stack))
    assert finalizer.total >= 0.8e9, shown.heaviest()


def split_has_symbols(names: set[str]) -> bool:
    """Debian's interpreter is stripped: its C functions have no names."""
    return any(name.startswith("list_sort") for name in names)


def assert_whole(capture: Capture) -> None:
    """Every stack of a thread that runs Python has its frames, and its native root."""
    managed = capture.profile.verdicts().managed
    bad = [ManagedVerdict.TORN.name, ManagedVerdict.MISPLACED.name, ManagedVerdict.DEPTH.name]
    assert sum(managed.get(name, 0) for name in bad) <= 0.002 * sum(managed.values()), managed
    assert sum(managed.values()) >= 0.98 * capture.profile.total_ns(Clock.CPU), managed
