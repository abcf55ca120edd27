"""Find out how the target's program itself calls its threads, as long as a recording runs.

A thread looks when threads have appeared, and from time to time, since names change. Only memory of
the target is read. A hostile target may make a look wait for ever: nobody waits for it long.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence

from ..linux import procfs
from ..linux.process_memory import MemoryReadError
from ..symbols.interpreters.found import FoundInterpreter
from ..symbols.interpreters.python.bounded_memory import BoundedMemory
from ..symbols.interpreters.python.reader import open_readers
from ..symbols.interpreters.python.thread_names import thread_names

_POLL_S = 0.1  # for new threads
_REST_S = 5.0  # between two looks without new ones
_LONGEST_REST_S = 60.0
_SHARE, _SHARE_OF_NEW = 500, 20  # a look that took 10 ms is made again after 5 s or 0.2 s
_RETRY_S = 0.2  # after a look without a name; doubled each time
_LAST_LOOK_S = 0.5
_CLOSE_TIMEOUT_S = 0.5
_READS, _READ_BYTES, _LOOK_S = 300_000, 64 << 20, 2.0
_MAX_COMM = 15


class ThreadNames:
    """Looks for names of threads.

    Args:
        pid: the target.
        interpreters: returns those that are known now.
        threads: returns the ids of the threads that are known now; ours, not the kernel's.
        set_names: takes names by tid, and the kernel's names that say less. Called in the thread.
    """

    def __init__(
        self,
        pid: int,
        interpreters: Callable[[], Sequence[FoundInterpreter]],
        threads: Callable[[], frozenset[int]],
        set_names: Callable[[Mapping[int, str], frozenset[str]], None],
    ) -> None:
        self._pid = pid
        self._interpreters = interpreters
        self._threads = threads
        self._set_names = set_names
        self._seen: frozenset[int] = frozenset()
        self._closing = threading.Event()
        self._look_lock = threading.Lock()
        self._thread = threading.Thread(target=self._loop, name="flametap-threads", daemon=True)

    def start(self) -> None:
        """Look from now on."""
        self._thread.start()

    def close(self) -> None:
        """Look for the last time, and end the thread. Idempotent."""
        if not self._closing.is_set():
            self._closing.set()
            if self._thread.is_alive():
                self._thread.join(_LAST_LOOK_S + _CLOSE_TIMEOUT_S)

    def _loop(self) -> None:
        earliest_s = latest_s = 0.0
        retry_s = _RETRY_S
        while not self._closing.wait(_POLL_S):
            now_s = time.monotonic()
            threads = self._threads()
            if now_s < earliest_s or (threads <= self._seen and now_s < latest_s):
                continue
            is_told = self._look()
            took_s = time.monotonic() - now_s
            earliest_s = now_s + took_s * _SHARE_OF_NEW
            latest_s = now_s + min(max(_REST_S, took_s * _SHARE), _LONGEST_REST_S)
            if is_told:
                self._seen, retry_s = threads, _RETRY_S
            else:
                earliest_s = max(earliest_s, now_s + retry_s)
                retry_s = min(retry_s * 2, _LONGEST_REST_S)
        self._look()

    def _look(self) -> bool:
        """Read the names and hand them over; return whether there were any, or can be none."""
        readable = [
            each
            for each in self._interpreters()
            if each.recipe is not None and not each.is_free_threaded
        ]
        names: dict[int, str] = {}
        for each in readable:
            with (
                contextlib.suppress(OSError, MemoryReadError),
                BoundedMemory(f"{procfs.PROC}/{self._pid}", _READS, _READ_BYTES, _LOOK_S) as memory,
            ):
                readers = open_readers(memory, each)
                if readers is not None and readers.objects is not None:
                    names |= thread_names(readers.frames, readers.objects)
        if names:
            self._set_names(names, default_names(self._pid))
        return bool(names) or not readable


def default_names(pid: int, proc: str = procfs.PROC) -> frozenset[str]:
    """Return what the kernel calls threads of a process that nobody has named.

    A thread begins with the name of the one that starts it; the main thread, with the file name of
    the program or of the script that the kernel was to run.
    """
    found: set[str] = set()
    with contextlib.suppress(OSError):
        found.add(procfs.read_task_name(pid, pid, proc))
    with contextlib.suppress(OSError):
        found.add(os.path.basename(os.readlink(f"{proc}/{pid}/exe")))
    with contextlib.suppress(OSError), open(f"{proc}/{pid}/cmdline", "rb") as file:
        words = file.read(1 << 16).split(b"\0")[:2]
        found |= {os.fsdecode(os.path.basename(word)) for word in words}
    return frozenset(
        name.encode("utf-8", "surrogateescape")[:_MAX_COMM].decode("utf-8", "surrogateescape")
        for name in found
        if name
    )
