"""A look at the Pythons of a process, and which frames of its stacks were seen in it."""

from __future__ import annotations

import threading
import time
from dataclasses import replace

import pytest

from flametap.capture import python_look as module
from flametap.capture.python_look import frames_seen, look_at_python
from flametap.model import Frame, FrameKind, Function
from flametap.symbols.interpreters.found import FoundInterpreter
from flametap.symbols.interpreters.python.reader import FREE_THREADED
from flametap.symbols.interpreters.python.thread_look import FrameLook, ThreadLook
from flametap.symbols.interpreters.search import find_interpreters
from python_targets import PythonState, python_state

__all__ = ["python_state"]

SORT = Frame(Function("list_sort", "libpython3.12.so"), 7)


def frame(name: str, line: int) -> Frame:
    return Frame(Function(name, "app.py", f"/srv/{name}.py", FrameKind.PYTHON), line)


def seen(name: str, line: int) -> FrameLook:
    return FrameLook(name, f"/srv/{name}.py", line)


def thread(*frames: FrameLook) -> ThreadLook:
    return ThreadLook(7, frames, False)


LEAF, MIDDLE, ROOT = frame("leaf", 3), frame("middle", 20), frame("root", 9)
SEEN = seen("leaf", 3), seen("middle", 20), seen("root", 9)


def test_frames_are_matched_by_their_places_past_native_ones() -> None:
    found = frames_seen([LEAF, SORT, MIDDLE, ROOT, SORT], [thread(*SEEN)], is_complete=True)
    assert found == {0: SEEN[0], 2: SEEN[1], 3: SEEN[2]}


@pytest.mark.parametrize(
    "elsewhere",
    [
        (),
        SEEN[1:],
        SEEN[:2],
        (seen("leaf", 4), *SEEN[1:]),
        (seen("other", 1), *SEEN),
        (*SEEN, seen("deeper", 1)),
    ],
)
def test_thread_that_is_elsewhere_has_no_frames(elsewhere: tuple[FrameLook, ...]) -> None:
    assert frames_seen([LEAF, MIDDLE, ROOT], [thread(*elsewhere)], is_complete=True) == {}


def test_stack_that_was_cut_lacks_its_root() -> None:
    found = frames_seen([LEAF, MIDDLE], [thread(*SEEN)], is_complete=False)
    assert found == {0: SEEN[0], 1: SEEN[1]}
    assert frames_seen([LEAF, MIDDLE], [thread(*SEEN)], is_complete=True) == {}


def test_recursion_of_another_depth_is_elsewhere() -> None:
    five = [frame("f", 1)] * 5
    assert len(frames_seen(five, [thread(*[seen("f", 1)] * 5)], is_complete=True)) == 5
    for depth in (4, 6):
        assert not frames_seen(five, [thread(*[seen("f", 1)] * depth)], is_complete=True)


def test_frames_of_two_interpreters_in_one_thread() -> None:
    inner, outer = thread(SEEN[0]), thread(*SEEN[1:])
    for looks in ([inner, outer], [outer, inner]):
        found = frames_seen([LEAF, SORT, MIDDLE, ROOT], looks, is_complete=True)
        assert found == {0: SEEN[0], 2: SEEN[1], 3: SEEN[2]}
    assert not frames_seen([LEAF, MIDDLE, ROOT], [inner], is_complete=True)


@pytest.mark.needs("attach")
def test_look_has_threads_and_loops(python_state: PythonState) -> None:
    found = find_interpreters(python_state.pid)
    look = look_at_python(python_state.pid, found, with_locals=True)
    assert (look.versions, look.notes) == ([found[0].version], [])
    assert look.threads.keys() == python_state.names.keys()
    (loop,) = look.loops
    assert len(loop.tasks) == len(python_state.tasks)
    tasks_only = look_at_python(python_state.pid, found, with_locals=False, with_threads=False)
    assert not tasks_only.threads
    assert len(tasks_only.loops) == 1


@pytest.mark.needs("attach")
def test_free_threaded_build_is_off_with_a_reason(python_state: PythonState) -> None:
    found = [replace(find_interpreters(python_state.pid)[0], is_free_threaded=True)]
    look = look_at_python(python_state.pid, found, with_locals=True)
    assert look.notes == [f"{found[0].version}: variables are {FREE_THREADED}"]
    frames = [f for looks in look.threads.values() for each in looks for f in each.frames]
    assert frames
    assert not any(each.variables for each in frames)
    assert not look.loops
    assert not look_at_python(python_state.pid, found, with_locals=False).notes


def test_process_without_python_needs_nothing() -> None:
    look = look_at_python(1, [], with_locals=True)
    assert not look.threads
    assert not look.notes


def test_process_that_lets_us_wait_gets_no_look(monkeypatch: pytest.MonkeyPatch) -> None:
    goes_on = threading.Event()

    def hang(*_: object, **__: object) -> None:
        goes_on.wait(60)

    monkeypatch.setattr(module, "_TIMEOUT_S", 0.05)
    monkeypatch.setattr(module, "_look", hang)
    began = time.monotonic()
    found = FoundInterpreter(1, "CPython", "CPython 3.12.1", (3, 12), "/python", None)
    look = look_at_python(1, [found], with_locals=True)
    assert look.notes == ["the memory of the process cannot be read in time"]
    assert time.monotonic() - began < 30
    goes_on.set()
