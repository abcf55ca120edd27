"""Look at all Python threads of a process once: frames, local variables, who holds the lock.

Only memory is read, and no thread is stopped. So what is read of a thread counts if it slept from
before to after (the kernel counts how often it was switched), or if all is the same a second time.
A value that other threads may change meanwhile is read twice, and shown if both times agree.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ....linux.process_memory import MemoryReadError
from ....linux.tasks import rest_mark
from .bounded_memory import LimitReached
from .frames import FrameAt, Frames, StateAt
from .locals import variables
from .objects import Objects
from .paths import short_path
from .values import Values

RUNS = "it runs"
DAMAGED = "they cannot be read"
LIMIT = "the limit is reached"
CHANGES = "<changes meanwhile>"
_TRIES = 5
_MAX_TEXT = 4 << 20  # characters of all values


@dataclass(frozen=True)
class Local:
    """A local variable, shown."""

    name: str
    text: str
    is_argument: bool


@dataclass(frozen=True)
class FrameLook:
    """A frame of a Python function."""

    name: str
    file: str
    line: int
    variables: tuple[Local, ...] = ()
    problem: str = ""  # why variables are missing

    @property
    def short_file(self) -> str:
        """The file as people know it."""
        return short_path(self.file)


@dataclass(frozen=True)
class ThreadLook:
    """A thread state with its frames, leaf first."""

    tid: int  # as the process itself sees it
    frames: tuple[FrameLook, ...]
    has_lock: bool | None  # holds the interpreter's lock; None if that is not known
    problem: str = ""  # why there are no frames


class Looker:
    """Looks at the threads of one interpreter.

    Args:
        pid: the process.
        tids: the threads' numbers as the process itself sees them → as we see them.
        frames, objects: the readers.
        with_locals: read variables, too.
    """

    def __init__(
        self,
        pid: int,
        tids: Mapping[int, int],
        frames: Frames,
        objects: Objects | None,
        *,
        with_locals: bool,
    ) -> None:
        self._pid = pid
        self._tids = tids
        self._frames = frames
        self._objects = objects if with_locals else None
        self._values = None if objects is None else Values(objects)
        self._room = _MAX_TEXT

    def threads(self) -> list[ThreadLook]:
        """Return all threads of the interpreter.

        Raises:
            MemoryReadError: they cannot be listed.
        """
        states = [state for state in self._frames.states() if state.tid in self._tids]
        # All at one moment: there is one holder.
        holders = {each: self._frames.lock_holder(each) for each in {s.interpreter for s in states}}
        return [self._thread(state, holders[state.interpreter]) for state in states]

    def _thread(self, state: StateAt, holder: int) -> ThreadLook:
        tid = self._tids[state.tid]
        has_lock = None if holder < 0 else holder == state.addr
        problem = RUNS
        for _ in range(_TRIES):
            before = rest_mark(self._pid, tid)
            try:
                found = self._look(state)
                is_same = before is not None and rest_mark(self._pid, tid) == before
                if is_same or (not _has_changed(found) and self._look(state) == found):
                    return ThreadLook(state.tid, found, has_lock)
            except LimitReached:
                return ThreadLook(state.tid, (), has_lock, LIMIT)
            except MemoryReadError:
                problem = DAMAGED
                continue
            problem = RUNS
        return ThreadLook(state.tid, (), has_lock, problem)

    def _look(self, state: StateAt) -> tuple[FrameLook, ...]:
        return tuple(self._frame(frame) for frame in self._frames.frames(state.addr))

    def _frame(self, frame: FrameAt) -> FrameLook:
        code = self._frames.code(frame.code)
        place = code.shown_name, code.file, code.line_at(frame.position)
        if self._objects is None:
            return FrameLook(*place)
        if self._room <= 0:
            return FrameLook(*place, problem=LIMIT)
        found: list[Local] = []
        try:
            for each in variables(self._objects, frame.addr, frame.code):
                text = self._text(each.addr)
                self._room -= len(text)
                found.append(Local(each.name, text, each.is_argument))
        except LimitReached:
            self._room = 0
            return FrameLook(*place, tuple(found), LIMIT)
        except MemoryReadError:
            return FrameLook(*place, tuple(found), DAMAGED)
        return FrameLook(*place, tuple(found))

    def _text(self, addr: int) -> str:
        assert self._values is not None
        text = self._values.text(addr)
        for _ in range(2):
            again = self._values.text(addr)
            if again == text:
                return text
            text = again
        return CHANGES


def _has_changed(frames: tuple[FrameLook, ...]) -> bool:
    """Return whether a value changed while it was read, of which nothing is known then."""
    return any(each.text == CHANGES for frame in frames for each in frame.variables)
