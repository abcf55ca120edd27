"""Sum up what is known about each thread."""

from __future__ import annotations

from collections.abc import Mapping

from ...linux.syscalls import syscall_name
from ...model import Clock, LockState, Thread, ThreadInfo
from .intervals import Intervals
from .lock_states import lock_times
from .stacks import Stacks
from .totals import by_thread


def _wait_name(sysno: int) -> str:
    return syscall_name(sysno) if sysno >= 0 else "the kernel"


def thread_infos(
    threads: Mapping[int, Thread],
    intervals: Intervals,
    stacks: Stacks,
    between_ns: tuple[int, int] | None = None,
) -> list[ThreadInfo]:
    """Return all threads with their weights and current system calls, in the order of ``threads``.

    Args:
        threads: by ``thread_id``.
        intervals: theirs.
        stacks: those that the intervals refer to.
        between_ns: only what lies between these times of the target; None for all.
    """
    cells = {
        clock: intervals.span(clock, *between_ns) if between_ns else intervals.totals(clock)
        for clock in Clock
    }
    waits = intervals.open_waits()
    lock = lock_times(cells[Clock.WALL], stacks.stack_marks())
    totals = {clock: by_thread(c.thread_id, c.weight) for clock, c in cells.items()}
    return [
        ThreadInfo(
            thread_id=thread.thread_id,
            tid=thread.tid,
            name=thread.name,
            cpu_ns=totals[Clock.CPU].get(i, 0),
            wall_ns=totals[Clock.WALL].get(i, 0),
            off_cpu_ns=totals[Clock.OFF_CPU].get(i, 0),
            exited=thread.exited,
            waits_in=_wait_name(waits[i]) if i in waits else "",
            signals_blocked=thread.signals_blocked,
            gil_held_ns=lock[LockState.HELD].get(i, 0),
            gil_awaited_ns=lock[LockState.AWAITED].get(i, 0),
            comm=thread.comm,
            process=thread.process,
        )
        for i, thread in threads.items()
    ]
