"""Take a snapshot of a profile for sums by time. ``Profile`` holds the lock meanwhile."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ...model import Process, Thread
from .cell_keys import Cells
from .intervals import IntervalMoments, Intervals
from .lock_states import lock_states
from .roster import Roster
from .stacks import Stacks
from .wait_stacks import wait_stacks


class Moments(NamedTuple):
    """A snapshot of a profile. Times are the target's CLOCK_MONOTONIC, nanoseconds."""

    intervals: IntervalMoments
    new_cells: Cells
    threads: Mapping[int, Thread]  # by ``thread_id``
    hidden: Sequence[int]  # threads that are not the target's
    start_ns: int
    now_ns: int
    processes: Mapping[int, Process]  # by ``number``
    titles: Mapping[int, str]  # what tells each of them from the others


def take_moments(
    intervals: Intervals, stacks: Stacks, roster: Roster, start_ns: int, first_cell: int
) -> Moments:
    """Return a snapshot with the columns of the cells from one on.

    Args:
        intervals: of the profile.
        stacks: those that the intervals refer to.
        roster: its threads.
        start_ns: start of the first interval.
        first_cell: the first one.
    """
    return Moments(
        intervals.moments(),
        new_cells(intervals, stacks, first_cell),
        roster.titled(),
        tuple(roster.hidden),
        start_ns,
        intervals.now_ns,
        dict(roster.processes),
        roster.titles(),
    )


def new_cells(intervals: Intervals, stacks: Stacks, first_cell: int) -> Cells:
    """Return the columns of the cells from one on."""
    thread_id, stack, state, sysno = intervals.cell_columns()
    state, sysno = state[first_cell:], sysno[first_cell:]
    stack = stack[first_cell:]
    lock = lock_states(stacks.stack_marks()[stack], state, sysno)
    waits = wait_stacks(stacks, stack, state, sysno)
    return Cells(thread_id[first_cell:], state, sysno, lock, stack, waits)
