"""Weigh what threads did while they held a lock that others waited for. Pure.

The agent says of a wait which thread holds the lock. What that thread did in the same time is in
its own intervals, running or asleep.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ..model import ThreadState
from .interval_chunk import Block, Chunk, cut, joined
from .intervals import Intervals
from .stacks import Stacks

Floats = npt.NDArray[np.float64]

# Of a holder's intervals and the waits that they are within: of more, every so many is taken.
MAX_PAIRS = 1 << 21


@dataclass(frozen=True, eq=False)
class HeldWaits:
    """Waits for locks, in a snapshot of the intervals. Any thread may call.

    Attributes:
        chunks: the intervals that have their moments.
        thread_id: of each cell.
        node: the leaf of each cell's stack in the trie.
        state: of each cell.
        between_ns: only waits between these two times, CLOCK_MONOTONIC of the target.
    """

    chunks: Sequence[Chunk]
    thread_id: npt.NDArray[np.uint32]
    node: npt.NDArray[np.int32]
    state: npt.NDArray[np.uint8]
    between_ns: tuple[int, int]

    def rows(self) -> tuple[Block, npt.NDArray[np.uint32]]:
        """Return the waits whose holder is known, and the ``thread_id`` of each one's holder."""
        blocks, holders = list[Block](), [np.empty(0, np.uint32)]
        for chunk in self._of_time(*self.between_ns):
            block, holder_id = chunk.held()
            block = cut(block, *self.between_ns)
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
            all_ = joined([chunk.read(thread_id) for chunk in self.chunks])
            is_asleep = np.isin(self.state[all_.cell], (ThreadState.PARKED, ThreadState.BLOCKED))
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
        for chunk in self._of_time(int(begin.min()), int(stop.max())):
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

    def _of_time(self, start_ns: int, end_ns: int) -> list[Chunk]:
        return [each for each in self.chunks if each.start_ns < end_ns and each.end_ns > start_ns]


def take_held_waits(
    intervals: Intervals, stacks: Stacks, t0_ns: int | None, t1_ns: int | None
) -> HeldWaits:
    """Take a snapshot; ``Profile`` holds the lock. See ``Profile.held_waits``."""
    thread_id, stack, state, _ = intervals.cell_columns()
    chunks = intervals.snapshot(with_past=False)
    between_ns = t0_ns or 0, intervals.now_ns + 1 if t1_ns is None else t1_ns
    return HeldWaits(chunks, thread_id, stacks.stack_nodes()[stack], state, between_ns)
