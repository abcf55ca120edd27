"""Look at the tasks of all event loops of an interpreter once, ready to be shown.

Tasks count as read if their loop's thread slept meanwhile. Where it did not, or is not known, those
tasks count that were the same in two readings.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from ....linux.process_memory import MemoryReadError
from ....linux.tasks import rest_mark
from .asyncio_debug import AsyncioDebug
from .bounded_memory import LimitReached
from .frames import FrameAt, Frames
from .objects import Objects
from .tasks import LoopAt, TaskAt, Tasks
from .thread_look import FrameLook

RUNNING, READY, WAITING = "running", "ready", "waiting"
_TRIES = 3
_MAX_NAMES = 100  # of tasks that are awaited, or wait

_DIGITS = re.compile(r"([0-9]{1,18})")

_Marks = Mapping[int, "tuple[int, int] | None"]


@dataclass(frozen=True)
class TaskLook:
    """A task that is not done."""

    name: str
    state: str  # RUNNING, READY, WAITING
    frames: tuple[FrameLook, ...]  # of its coroutines, leaf first
    is_cut: bool  # frames are missing
    waits_for: str  # what it waits for, if that is no other task: a class; else ""
    waits_for_tasks: tuple[str, ...]
    awaited_by: tuple[str, ...]


@dataclass(frozen=True)
class LoopLook:
    """An event loop."""

    tid: int  # of its thread, as the process itself sees it; 0 if unknown
    kind: str  # its class
    tasks: tuple[TaskLook, ...]
    changed: int = 0  # tasks that changed while they were read, and are left out
    is_cut: bool = False  # there are more than were read


class LoopLooker:
    """Looks at event loops.

    Args:
        pid: the process.
        tids: the threads' numbers as the process itself sees them → as we see them.
        frames, objects: the readers of one interpreter.
        debug: what its asyncio says of itself; None before 3.14.
    """

    def __init__(
        self,
        pid: int,
        tids: Mapping[int, int],
        frames: Frames,
        objects: Objects,
        debug: AsyncioDebug | None,
    ) -> None:
        self._pid = pid
        self._tids = tids
        self._frames = frames
        self._objects = objects
        self._debug = debug

    def loops(self) -> list[LoopLook]:
        """Return the event loops that have tasks.

        Raises:
            MemoryReadError: something cannot be read each time.
        """
        best: list[LoopLook] | None = None
        for attempt in range(_TRIES):
            try:
                found = self._look()
            except MemoryReadError:
                if attempt == _TRIES - 1 and best is None:
                    raise
                continue
            if best is None or _changed(found) < _changed(best):
                best = found
            if not _changed(best):
                break
        return best or []

    def _look(self) -> list[LoopLook]:
        tids = {state.pointer: state.tid for state in self._frames.states()}
        before = self._marks()
        first, is_cut = self._read()
        after = self._marks()
        second: dict[int, dict[int, TaskLook]] | None = None
        found = []
        for loop, tasks in first:
            tid = tids.get(loop.pointer, 0)
            mark = before.get(self._tids.get(tid, 0))
            shown = list(tasks.values())
            if mark is None or mark != after.get(self._tids[tid]):
                if second is None:
                    second = self._read_again()
                again = second.get(loop.addr, {})
                shown = [task for addr, task in tasks.items() if again.get(addr) == task]
            if self._debug is None:  # a set has no order
                shown.sort(key=lambda task: _in_order(task.name))
            if tasks:
                changed = len(tasks) - len(shown)
                found.append(LoopLook(tid, loop.name, tuple(shown), changed, is_cut))
        return found

    def _marks(self) -> _Marks:
        return {tid: rest_mark(self._pid, tid) for tid in self._tids.values()}

    def _read_again(self) -> dict[int, dict[int, TaskLook]]:
        try:
            return {loop.addr: tasks for loop, tasks in self._read()[0]}
        except LimitReached:
            return {}

    def _read(self) -> tuple[list[tuple[LoopAt, dict[int, TaskLook]]], bool]:
        """Return the loops with their tasks by address, and whether there are more."""
        reader = Tasks(self._frames, self._objects, self._debug)
        loops = reader.loops()
        every = {task.addr: task for loop in loops for task in loop.tasks}
        awaits: dict[int, list[str]] = {}
        for task in every.values():
            for awaiter in task.awaited_by:
                awaits.setdefault(awaiter, []).append(task.name)
        return [
            (loop, {task.addr: self._shown(task, loop, every, awaits) for task in loop.tasks})
            for loop in loops
        ], reader.is_cut

    def _shown(
        self,
        task: TaskAt,
        loop: LoopAt,
        every: Mapping[int, TaskAt],
        awaits: Mapping[int, list[str]],
    ) -> TaskLook:
        is_running = loop.running == task.addr
        frames, is_cut = task.chain.frames[::-1], task.chain.is_cut
        if task.chain.running:
            own = self._running_frames(loop, task.chain.running) if is_running else None
            is_cut |= own is None
            frames = (*(own or ()), *frames)
        awaited_by = {every[addr].name for addr in task.awaited_by if addr in every}
        tasks = tuple(sorted(awaits.get(task.addr, ()))[:_MAX_NAMES])
        return TaskLook(
            task.name,
            RUNNING if is_running else WAITING if task.waits_for else READY,
            tuple(self._frame(each) for each in frames),
            is_cut,
            "" if tasks or not task.waits_for else self._kind(task.waits_for),
            tasks,
            tuple(sorted(awaited_by)[:_MAX_NAMES]),
        )

    def _running_frames(self, loop: LoopAt, coroutine: int) -> tuple[FrameAt, ...] | None:
        """Return the frames of the loop's thread down to a coroutine's; None if it is not there."""
        try:
            for state in self._frames.states():
                frames = self._frames.frames(state.addr) if state.pointer == loop.pointer else []
                for index, frame in enumerate(frames):
                    if frame.addr == coroutine:
                        return tuple(frames[: index + 1])
        except MemoryReadError:
            pass
        return None

    def _frame(self, frame: FrameAt) -> FrameLook:
        try:
            code = self._frames.code(frame.code)
        except MemoryReadError:
            return FrameLook("?", "", 0)
        return FrameLook(code.shown_name, code.file, code.line_at(frame.position))

    def _kind(self, addr: int) -> str:
        try:
            return self._objects.type_of(addr).name
        except MemoryReadError:
            return ""


def _in_order(name: str) -> list[tuple[int, str]]:
    """Return a key that sorts ``Task-2`` before ``Task-10``."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in _DIGITS.split(name)]


def _changed(loops: list[LoopLook]) -> int:
    return sum(loop.changed for loop in loops)
