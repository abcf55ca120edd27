"""Look at the Pythons of a process once: variables of frames, who holds the lock, asyncio's tasks.

Only memory of the process is read, and nothing of it is stopped. A hostile one may make a read wait
for ever, so the look has a thread of its own, and a limit.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ..linux import procfs
from ..linux.process_memory import MemoryReadError, ProcessMemory
from ..linux.tasks import own_tids
from ..model import Frame, FrameKind
from ..symbols.interpreters.found import CPYTHON, FoundInterpreter
from ..symbols.interpreters.python.asyncio_debug import find_asyncio_debug
from ..symbols.interpreters.python.bounded_memory import BoundedMemory
from ..symbols.interpreters.python.reader import Readers, open_readers
from ..symbols.interpreters.python.task_look import LoopLook, LoopLooker
from ..symbols.interpreters.python.thread_look import FrameLook, Looker, ThreadLook

_VARIABLES_S, _TASKS_S = 5.0, 8.0  # 10 000 tasks take 2 to 4 s
_TIMEOUT_S = 15.0
_SELF_DESCRIBED = (3, 14)


@dataclass
class PythonLook:
    """What a look has found."""

    versions: list[str] = field(default_factory=list)  # "CPython 3.12.1"
    threads: dict[int, list[ThreadLook]] = field(default_factory=dict)  # by tid
    loops: list[LoopLook] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)  # what the user should know, one line each


def look_at_python(
    pid: int,
    interpreters: Sequence[FoundInterpreter],
    *,
    with_locals: bool,
    with_threads: bool = True,
) -> PythonLook:
    """Read threads, variables and tasks. A note says what took too long and is missing.

    Args:
        pid: the process.
        interpreters: those of it that are known.
        with_locals: read variables, too.
        with_threads: read the threads; else only the tasks.
    """
    look = PythonLook()

    def run() -> None:
        for each in interpreters:
            with contextlib.suppress(OSError, MemoryReadError):
                _look(pid, each, look, with_locals=with_locals, with_threads=with_threads)

    if interpreters:
        thread = threading.Thread(target=run, name="flametap-look", daemon=True)
        thread.start()
        thread.join(_TIMEOUT_S)
        if thread.is_alive():
            # The thread may still write to what it has.
            return PythonLook(notes=["the memory of the process cannot be read in time"])
    return look


def _look(
    pid: int,
    found: FoundInterpreter,
    look: PythonLook,
    *,
    with_locals: bool,
    with_threads: bool,
) -> None:
    folder = f"{procfs.PROC}/{pid}"
    tids = own_tids(pid)
    look.versions.append(found.version)
    if found.runtime != CPYTHON:
        return
    with BoundedMemory(folder, seconds=_VARIABLES_S) as memory:
        readers = open_readers(memory, found)
        if readers is None:
            return
        if readers.problem and with_locals:
            look.notes.append(f"{found.version}: variables are {readers.problem}")
        looker = Looker(pid, tids, readers.frames, readers.objects, with_locals=with_locals)
        for thread in looker.threads() if with_threads else ():
            look.threads.setdefault(thread.tid, []).append(thread)
    if readers.objects is not None:
        with BoundedMemory(folder, seconds=_TASKS_S) as memory:
            _look_at_loops(pid, found, look, memory, tids)


def _look_at_loops(
    pid: int,
    found: FoundInterpreter,
    look: PythonLook,
    memory: ProcessMemory,
    tids: Mapping[int, int],
) -> None:
    readers = open_readers(memory, found)
    assert isinstance(readers, Readers)
    assert readers.objects is not None
    debug = None
    if found.minor_version >= _SELF_DESCRIBED:
        debug = find_asyncio_debug(pid, memory, found.module)
    looker = LoopLooker(pid, tids, readers.frames, readers.objects, debug)
    try:
        look.loops += looker.loops()
    except MemoryReadError:
        look.notes.append(f"{found.version}: its asyncio tasks cannot be read")


def frames_seen(
    frames: Sequence[Frame], looks: Sequence[ThreadLook], *, is_complete: bool
) -> dict[int, FrameLook]:
    """Match the frames of a stack with those of a later look at the same thread.

    Args:
        frames: of one stack, leaf first; also native ones.
        looks: of the thread's states, one for each interpreter in it.
        is_complete: no frames are missing at the root.

    Returns:
        Index of a frame → what was seen of it. Empty if the thread is elsewhere now.
    """
    python = [i for i, frame in enumerate(frames) if frame.function.kind is FrameKind.PYTHON]
    places = [(frames[i].function.file, frames[i].line) for i in python]
    found: dict[int, FrameLook] = {}
    for look in looks:
        own = [(frame.file, frame.line) for frame in look.frames]
        for start in range(len(places)):
            count = min(len(own), len(places) - start)
            if is_complete and count < len(own):
                break
            if count and places[start : start + count] == own[:count]:
                found |= dict(zip(python[start : start + count], look.frames, strict=False))
                break
    return found if len(found) == len(python) else {}
