"""Tasks of event loops, against what the program itself says."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from flametap.linux import tasks
from flametap.symbols.interpreters.python import task_look
from flametap.symbols.interpreters.python import tasks as task_reader
from flametap.symbols.interpreters.python.asyncio_debug import AsyncioDebug, find_asyncio_debug
from flametap.symbols.interpreters.python.bounded_memory import BoundedMemory
from flametap.symbols.interpreters.python.frames import FrameAt
from flametap.symbols.interpreters.python.object_layout import layout_of
from flametap.symbols.interpreters.python.objects import Objects
from flametap.symbols.interpreters.python.reader import open_readers
from flametap.symbols.interpreters.python.task_look import WAITING, LoopLooker, TaskLook
from flametap.symbols.interpreters.python.thread_look import FrameLook
from flametap.symbols.interpreters.search import find_interpreters
from python_targets import PythonState

pytestmark = pytest.mark.needs("attach")


@pytest.fixture
def looker(python_state: PythonState) -> Iterator[LoopLooker]:
    (found,) = find_interpreters(python_state.pid)
    with BoundedMemory(f"/proc/{python_state.pid}", seconds=60) as memory:
        readers = open_readers(memory, found)
        assert readers is not None
        assert readers.objects is not None
        tids = tasks.own_tids(python_state.pid)
        debug = find_asyncio_debug(python_state.pid, memory, found.module)
        assert (debug is not None) == (found.minor_version >= (3, 14))
        yield LoopLooker(python_state.pid, tids, readers.frames, readers.objects, debug)


def assert_agrees(state: PythonState, task: TaskLook) -> None:
    """Compare a task with what the program says."""
    said = state.tasks[task.name]
    own = [[frame.name, frame.line] for frame in task.frames[::-1]]
    assert own == said["frames"], task.name
    assert list(task.awaited_by) == said["awaited_by"]
    awaited = sorted(name for name, each in state.tasks.items() if task.name in each["awaited_by"])
    assert list(task.waits_for_tasks) == awaited
    assert (task.state, task.is_cut) == (WAITING, False)
    assert bool(task.waits_for) == (not awaited)


def test_tasks_are_those_that_the_program_has(
    python_state: PythonState, looker: LoopLooker
) -> None:
    (loop,) = looker.loops()
    (tid,) = (tid for tid, name in python_state.names.items() if name == "loop")
    assert (loop.tid, loop.kind) == (tid, "_UnixSelectorEventLoop")
    assert (loop.changed, loop.is_cut) == (0, False)
    assert sorted(task.name for task in loop.tasks) == sorted(python_state.tasks)
    for task in loop.tasks:
        assert_agrees(python_state, task)


def test_thread_is_known_of_a_loop_that_does_not_say_it(
    python_state: PythonState, looker: LoopLooker, monkeypatch: pytest.MonkeyPatch
) -> None:
    # uvloop's are written in C.
    (tid,) = (tid for tid, name in python_state.names.items() if name == "loop")
    real = Objects.attribute
    monkeypatch.setattr(
        Objects, "attribute", lambda *own: 0 if own[2] == "_thread_id" else real(*own)
    )
    (loop,) = looker.loops()
    assert (loop.tid, len(loop.tasks)) == (tid, len(python_state.tasks))


def test_loop_that_runs_is_read_twice(
    python_state: PythonState, looker: LoopLooker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(task_look, "rest_mark", lambda *_: None)
    (loop,) = looker.loops()
    assert (loop.changed, len(loop.tasks)) == (0, len(python_state.tasks))


def test_task_that_changes_meanwhile_is_left_out(
    python_state: PythonState, looker: LoopLooker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(task_look, "rest_mark", lambda *_: None)
    real, count = LoopLooker._frame, iter(range(10_000_000))

    def frame(self: LoopLooker, at: FrameAt) -> FrameLook:
        found = real(self, at)
        if found.name.endswith("leaf"):
            return FrameLook(found.name, found.file, next(count))
        return found

    monkeypatch.setattr(LoopLooker, "_frame", frame)
    (loop,) = looker.loops()
    changing = [n for n, t in python_state.tasks.items() if t["frames"][-1][0] == "leaf"]
    assert loop.changed == len(changing) > 0
    assert {t.name for t in loop.tasks} == python_state.tasks.keys() - set(changing)


def test_number_of_tasks_has_a_limit(looker: LoopLooker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task_reader, "MAX_TASKS", 3)
    (loop,) = looker.loops()
    assert (len(loop.tasks), loop.is_cut) == (3, True)


def test_names_are_sorted_by_their_numbers() -> None:
    names = ["b", "Task-10", "Task-2", "", "Task-2x"]
    key = task_look._in_order
    assert sorted(names, key=key) == ["", "Task-2", "Task-2x", "Task-10", "b"]
    assert sorted(["9" * 40, "9" * 30], key=key) == ["9" * 30, "9" * 40]


def test_description_that_contradicts_what_is_known_is_not_used() -> None:
    layout = layout_of((3, 14))
    assert layout is not None
    real = AsyncioDebug(168, 136, 96, 108, 109, 128, 152, 225864, 10880, 936, 864, 872, 880)
    assert real.fits(layout.task)
    assert not real._replace(task_coroutine=136).fits(layout.task)
    assert not real._replace(thread_tasks=1 << 40).fits(layout.task)
