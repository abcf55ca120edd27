"""Choose the thread that can be stopped without harm.

A stop ends some waits with EINTR, though the thread gets no signal (``linux.eintr_restart``). They
begin again, as if the thread had come to them a moment later, so a wait with a timeout is taken
when it has just begun. Where no thread offers itself for a while, one that waits in milliseconds is
taken, too, and gets the rest of its time; at last, one whose timeout has to begin anew.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import NamedTuple

from ...linux import eintr_restart
from ...linux.tasks import Call, asleep_s, is_of_kernel, read_call, rest_mark, status_fields, tasks

# Looking at each of thousands takes longer than it gives.
LOOKED_AT_MAX = 64
# How long a wait that has just begun is waited for, before others are taken.
PATIENCE_S, LONG_PATIENCE_S = 0.3, 2.0
LEFT_LEAST_MS = 50  # one that ends before long is waited for


class Candidate(NamedTuple):
    """A thread that may be stopped.

    ``left_ms``: how long its wait in milliseconds lasts when it begins again; -1 for as before.
    ``must_stop``: its wait ends with EINTR unless the thread is diverted once it was asked to stop.
    """

    tid: int
    left_ms: int = -1
    must_stop: bool = False


class Candidates:
    """The threads of one process, looked at again and again.

    Args:
        pid: the process.
    """

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._marks: dict[int, tuple[int, int] | None] = {}
        self._turn = 0
        self._begin_s = time.monotonic()
        self._filters = (b"", b"")  # of the main thread

    def choose(self) -> Iterator[Candidate]:
        """Yield threads to try, those first whose wait continues after a stop as if there had been
        none; then those whose wait has begun since the last call; then those that run; after a
        while, those that wait for a time.
        """
        running: list[Candidate] = []
        waiting: list[Candidate] = []
        self._filters = _filters(status_fields(self._pid, self._pid))
        for tid in self._some(sorted(tasks(self._pid))):
            found = self._look(tid)
            if found is None:
                continue
            state, call = found
            if state == b"R":
                running.append(Candidate(tid))
            elif state == b"S" and call is not None:
                must_stop = call.number in eintr_restart.ENDED_BY_STOPS
                if not eintr_restart.may_end(call, self._pid):
                    yield Candidate(tid, must_stop=must_stop)
                    continue
                mark = rest_mark(self._pid, tid)
                has_just_begun = self._marks.get(tid, mark) != mark
                self._marks[tid] = mark
                if has_just_begun:
                    yield Candidate(tid, must_stop=must_stop)
                else:
                    waiting += self._in_the_midst(tid, call)
        yield from running
        yield from waiting

    def _in_the_midst(self, tid: int, call: Call) -> Iterator[Candidate]:
        """Yield a thread that has waited for some time, if we have, too."""
        since_s = time.monotonic() - self._begin_s
        if since_s < PATIENCE_S:
            return
        waited_s = asleep_s(self._pid, tid)
        left_ms = None if waited_s is None else eintr_restart.milliseconds_left(call, waited_s)
        if left_ms is not None and left_ms >= LEFT_LEAST_MS:
            yield Candidate(tid, left_ms, must_stop=True)
        elif left_ms is None and since_s >= LONG_PATIENCE_S:
            yield Candidate(tid, must_stop=True)

    def _some(self, tids: list[int]) -> list[int]:
        """Return the main thread and some of the others, each time the next ones."""
        if len(tids) <= LOOKED_AT_MAX:
            return tids
        first = self._turn * LOOKED_AT_MAX % len(tids)
        self._turn += 1
        return [self._pid, *(tids + tids)[first : first + LOOKED_AT_MAX]]

    def _look(self, tid: int) -> tuple[bytes, Call | None] | None:
        """Return a thread's state and what it waits in; None if it must not be stopped.

        One that the kernel has made must not, nor one with other seccomp filters than the main
        thread: our thread inherits them. ``host_divert`` checks the rest.
        """
        try:
            if is_of_kernel(self._pid, tid):
                return None
            status = status_fields(self._pid, tid)
            if _filters(status) != self._filters:
                return None
            return status[b"State"][:1], read_call(self._pid, tid)
        except (OSError, KeyError, ValueError):
            return None


def _filters(status: dict[bytes, bytes]) -> tuple[bytes, bytes]:
    return status.get(b"Seccomp", b""), status.get(b"Seccomp_filters", b"")
