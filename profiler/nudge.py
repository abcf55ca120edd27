"""Has Frida's threads in a target that sleep over a wake-up look again.

Of a hundred attaches on a busy machine one did not come to its end: all of Frida's threads in the
target slept, the first of them in a futex(2) without a time limit, and went on as soon as a
debugger had touched them. So do we touch them: a thread that was stopped for a moment (ptrace(2))
begins its call anew, and finds that the word it waits for has changed. For one that waits rightly
nothing changes; threads of the target's own that were started meanwhile are touched, too. None is
where the target stands still: it could not be let go again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from flametap import hold
from flametap.handshake import Standstill
from flametap.loader import SYS_FUTEX, system_call

# How many looks must find the end of an attach still to come. At ten a second.
LOOKS = 10


class Nudge:
    """Touches the threads once in ``LOOKS`` calls of ``look``.

    Args:
        pid: the target.
        threads: tells which threads there are that were not there before the attach.
    """

    def __init__(self, pid: int, threads: Callable[[], Iterable[int]]) -> None:
        self._pid = pid
        self._threads = threads
        self._looks = 0

    def look(self) -> None:
        """See the class."""
        self._looks += 1
        if self._looks % LOOKS == 0 and not Standstill(self._pid, patience=1).lasts():
            touch(self._pid, self._threads())


def touch(pid: int, threads: Iterable[int]) -> None:
    """Has those threads of a process that wait in a futex begin their wait anew."""
    for tid in threads:
        if system_call(pid, tid) == SYS_FUTEX:
            hold.stop(tid)
            hold.let_go(tid)
