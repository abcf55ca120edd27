"""Weigh what threads did while they held a lock that others waited for. Pure.

The agent says of a wait which thread holds the lock. What that thread did in the same time is in
its own intervals, running or asleep.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ..model import ThreadState
from .interval_chunk import Block, joined
from .lock_intervals import LockIntervals

Floats = npt.NDArray[np.float64]

# Of a holder's intervals and the waits that they are within: of more, every so many is taken.
MAX_PAIRS = 1 << 21
_ASLEEP = (ThreadState.PARKED, ThreadState.BLOCKED)


class HeldWaits:
    """Waits for locks whose holder is known. Any thread may call.

    Args:
        intervals: a snapshot of all intervals; only waits in its time count.
    """

    def __init__(self, intervals: LockIntervals) -> None:
        self.thread_id, self.node = intervals.thread_id, intervals.node  # of each cell
        self._intervals = intervals

    def rows(self) -> tuple[Block, npt.NDArray[np.uint32]]:
        """Return the waits, and the ``thread_id`` of each one's holder."""
        blocks, holders = list[Block](), [np.empty(0, np.uint32)]
        for chunk in self._intervals.chunks:
            block, holder_id = chunk.held()
            block = self._intervals.part(block)
            some = block.wall_ns > 0
            blocks.append(block.take(some))
            holders.append(holder_id[some])
        return joined(blocks), np.concatenate(holders)

    def last(self) -> dict[int, tuple[int, int]]:
        """Return for each thread that waited to the end of the recording who held its lock then.

        By ``thread_id``: that of the holder, and how long it has been so, nanoseconds.
        """
        rows, holder_id = self.rows()
        found = {}
        waiting = self.thread_id[rows.cell]
        for thread_id in np.unique(waiting).tolist():
            own = np.flatnonzero(waiting == thread_id)
            last = own[np.argmax(rows.t0_ns[own])]
            # What it ran last may be told after its wait.
            all_ = joined([chunk.read(thread_id) for chunk in self._intervals.chunks])
            is_asleep = np.isin(self._intervals.state[all_.cell], _ASLEEP)
            if rows.t0_ns[last] >= all_.t0_ns[is_asleep].max(initial=0):
                found[thread_id] = int(holder_id[last]), int(rows.wall_ns[last])
        return found

    def held_meanwhile(self, waits: Block, holder_id: int) -> Floats:
        """Return for each cell how long a holder was in it during some waits, nanoseconds.

        A moment in which two threads wait counts twice.

        Args:
            waits: for that holder; at least one.
            holder_id: its ``thread_id``.
        """
        found = np.zeros(len(self.thread_id), np.float64)
        begin, stop = waits.t0_ns, waits.t0_ns + waits.wall_ns
        first_ns, last_ns = int(begin.min()), int(stop.max())
        for chunk in self._intervals.chunks:
            if chunk.end_ns <= first_ns or chunk.start_ns >= last_ns:
                continue
            held = chunk.read(holder_id)
            start, end = held.t0_ns, held.t0_ns + held.wall_ns
            # Time asleep that no look has seen is told later, and begins before what is told first.
            first = np.searchsorted(np.maximum.accumulate(end), begin, "right")
            count = np.maximum(np.searchsorted(start, stop, "left") - first, 0)
            step = max(1, -(-int(count.sum()) // MAX_PAIRS))
            count = -(-count // step)
            wait = np.repeat(np.arange(len(begin)), count)
            at = np.repeat(first, count)
            at += (np.arange(len(wait)) - np.repeat(np.cumsum(count) - count, count)) * step
            shared = np.minimum(stop[wait], end[at]) - np.maximum(begin[wait], start[at])
            np.add.at(found, held.cell[at], np.maximum(shared, 0) * float(step))
        return found
