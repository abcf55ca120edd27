"""Choose the thread that can be stopped without harm.

A stop ends some waits with EINTR, though the thread gets no signal (``linux.eintr_restart``). They
begin again, as if the thread had come to them a moment later, so a wait with a timeout is taken
only when it has just begun.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...linux import eintr_restart
from ...linux.tasks import Call, is_of_kernel, read_call, rest_mark, status_fields, tasks

# Looking at each of thousands takes longer than it gives.
LOOKED_AT_MAX = 64


class Candidates:
    """The threads of one process, looked at again and again.

    Args:
        pid: the process.
    """

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._marks: dict[int, tuple[int, int] | None] = {}
        self._turn = 0
        self._filters = (b"", b"")  # of the main thread

    def choose(self) -> Iterator[int]:
        """Yield threads to try, those first whose wait continues after a stop as if there had been
        none; then those whose wait has begun since the last call; then those that run.
        """
        running = []
        self._filters = _filters(status_fields(self._pid, self._pid))
        for tid in self._some(sorted(tasks(self._pid))):
            found = self._look(tid)
            if found is None:
                continue
            state, call = found
            if state == b"R":
                running.append(tid)
            elif state == b"S" and call is not None:
                if not eintr_restart.may_end(call):
                    yield tid
                    continue
                mark = rest_mark(self._pid, tid)
                has_just_begun = self._marks.get(tid, mark) != mark
                self._marks[tid] = mark
                if has_just_begun:
                    yield tid
        yield from running

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
