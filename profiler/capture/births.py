"""Hear of the processes that some processes start: from the kernel, or by looking."""

from __future__ import annotations

import contextlib
import os
import select
import time
from collections.abc import Collection
from typing import Protocol

from ..linux import procfs
from ..linux.child_processes import children_of
from ..linux.proc_events import Event, ProcEvents, What
from ..linux.task_stats import Ended, TaskStats

# Between two looks; more where a look takes long.
LOOK_S, LOOK_SHARE = 0.004, 50


class Births(Protocol):
    """Tells what happens to processes. One thread uses it."""

    def wait(self, known: Collection[int], timeout_s: float) -> list[Event]:
        """Wait for something to happen.

        Args:
            known: the processes whose children are of interest; others may be told of, too.
            timeout_s: the longest wait.
        """
        ...

    def ended(self) -> list[Ended]:
        """Return threads that have ended since the last call, if the kernel tells of them."""
        ...

    def close(self) -> None:
        """Hear of nothing any more."""
        ...


def births() -> Births:
    """Return what tells of processes here."""
    with contextlib.suppress(OSError):
        return ToldBirths()
    return SeenBirths()


class ToldBirths:
    """The kernel tells of all processes.

    Raises:
        OSError: it does not.
    """

    def __init__(self) -> None:
        self._events = ProcEvents()
        self._stats: TaskStats | None = None
        with contextlib.suppress(OSError):
            self._stats = TaskStats()
        self._looks = SeenBirths()

    def wait(self, known: Collection[int], timeout_s: float) -> list[Event]:
        """See ``Births``."""
        select.select([self._events], [], [], timeout_s)
        found, was_missed = self._events.read()
        return found + (self._looks.wait(known, 0.0) if was_missed else [])

    def ended(self) -> list[Ended]:
        """See ``Births``."""
        return self._stats.read()[0] if self._stats else []

    def close(self) -> None:
        """See ``Births``."""
        self._events.close()
        if self._stats:
            self._stats.close()


class NoBirths:
    """Nobody's children are of interest."""

    def wait(self, known: Collection[int], timeout_s: float) -> list[Event]:
        """See ``Births``."""
        time.sleep(timeout_s)
        return []

    def ended(self) -> list[Ended]:
        """See ``Births``."""
        return []

    def close(self) -> None:
        """See ``Births``."""


class SeenBirths:
    """We look at the lists of children."""

    def __init__(self) -> None:
        self._programs: dict[int, tuple[int, int]] = {}  # pid → file that it runs
        self._took_s = 0.0

    def wait(self, known: Collection[int], timeout_s: float) -> list[Event]:
        """See ``Births``."""
        time.sleep(min(timeout_s, max(LOOK_S, self._took_s * LOOK_SHARE)) if timeout_s else 0.0)
        began_s = time.monotonic()
        now_ns = time.monotonic_ns()
        found: list[Event] = []
        looked: set[int] = set()
        waiting = list(known)
        while waiting:
            parent = waiting.pop()
            if parent in looked:
                continue
            looked.add(parent)
            program = _program(parent)
            before = self._programs.get(parent)
            if program is None:
                found.append(Event(What.ENDED, parent, 0, now_ns))
                continue
            if before not in (None, program):
                found.append(Event(What.REPLACED, parent, 0, now_ns))
            self._programs[parent] = program
            for child in children_of(parent):
                if child not in known and child not in looked:
                    found.append(Event(What.BEGAN, child, parent, now_ns))
                    waiting.append(child)
        self._programs = {pid: each for pid, each in self._programs.items() if pid in looked}
        self._took_s = time.monotonic() - began_s
        return found

    def ended(self) -> list[Ended]:
        """See ``Births``: nobody tells."""
        return []

    def close(self) -> None:
        """See ``Births``."""


def _program(pid: int) -> tuple[int, int] | None:
    """Return the file that a process runs; None if it has ended."""
    with contextlib.suppress(PermissionError):
        try:
            if procfs.read_task_state(pid, pid) in "ZX":
                return None
            found = os.stat(f"{procfs.PROC}/{pid}/exe")
        except procfs.GONE:
            return None
        return found.st_dev, found.st_ino
    return 0, 0
