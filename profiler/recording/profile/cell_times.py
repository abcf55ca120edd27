"""The times of each cell by all clocks at once. ``Profile`` holds the lock meanwhile."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ...model import Clock
from .intervals import Intervals
from .moments import new_cells
from .stacks import Stacks
from .wait_stacks import WaitStacks

Int64s = npt.NDArray[np.int64]


class CellTimes(NamedTuple):
    """Times by thread, stack and what the thread did, in columns. Nanoseconds."""

    thread_id: npt.NDArray[np.uint32]
    stack: npt.NDArray[np.int32]
    node: npt.NDArray[np.int32]  # of the trie, where the stack ends
    state: npt.NDArray[np.uint8]  # ThreadState
    sysno: npt.NDArray[np.int16]
    lock: npt.NDArray[np.uint8]  # LockState
    cpu_ns: Int64s
    wall_ns: Int64s
    off_cpu_ns: Int64s
    samples: Int64s | None  # stacks taken; None where only the whole recording has them
    waits: WaitStacks  # those of cells that sleep in a futex


def take_cell_times(
    intervals: Intervals, stacks: Stacks, between_ns: tuple[int, int] | None
) -> CellTimes:
    """Return the times of the cells that have any, or a stack that was taken.

    Args:
        intervals: of the profile.
        stacks: those that the intervals refer to.
        between_ns: only the time between these, CLOCK_MONOTONIC of the target; None for all.
    """
    cells = new_cells(intervals, stacks, 0)
    counts = None
    if between_ns is None:
        sums = {clock: intervals.sums(clock) for clock in Clock}
        counts = intervals.sample_counts()
    else:
        sums = {clock: intervals.sums_between(clock, *between_ns) for clock in Clock}
    columns = [*sums.values(), *([] if counts is None else [counts])]
    some = np.flatnonzero(np.any([each != 0 for each in columns], axis=0))
    stack = cells.stack[some]
    return CellTimes(
        cells.thread_id[some],
        stack,
        stacks.stack_nodes()[stack],
        cells.state[some],
        cells.sysno[some],
        cells.lock[some],
        sums[Clock.CPU][some],
        sums[Clock.WALL][some],
        sums[Clock.OFF_CPU][some],
        None if counts is None else counts[some],
        cells.waits,
    )
