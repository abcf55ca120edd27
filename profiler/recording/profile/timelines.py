"""List the leaves of one thread after another in order of time. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ...model import Clock
from .interval_chunk import AnyChunk, Block, cut
from .leaves import LeafWeights
from .totals import weigh


@dataclass(frozen=True)
class TimedLeaves:
    """Leaves of a thread, and when; [n] each, in nanoseconds of the target's CLOCK_MONOTONIC."""

    begin_ns: npt.NDArray[np.int64]
    cpu_ns: npt.NDArray[np.int64]  # CPU time meanwhile, whichever clock the weights are of
    leaves: LeafWeights


@dataclass(frozen=True, eq=False)
class Timelines:
    """A snapshot of the intervals, with the columns of their cells. Any thread may call it.

    Yields a thread's leaves in order of time, in blocks. Rows without weight are omitted; the sum
    equals the thread's total.
    """

    chunks: Sequence[AnyChunk]
    clock: Clock
    state: npt.NDArray[np.uint8]
    node: npt.NDArray[np.int32]
    sysno: npt.NDArray[np.int16]
    counts: npt.NDArray[np.bool_]  # others are omitted
    between_ns: tuple[int, int] | None = None  # only the parts of the intervals in this range

    def __call__(self, thread_id: int) -> Iterator[LeafWeights]:
        """Yield the leaves of a thread; adjacent rows of the same leaf are joined."""
        for block, weight in self._rows(thread_id):
            node, sysno = self.node[block.cell], self.sysno[block.cell]
            is_new = np.ones(len(node), bool)
            is_new[1:] = (node[1:] != node[:-1]) | (sysno[1:] != sysno[:-1])
            first = np.flatnonzero(is_new)
            sums = np.add.reduceat(weight, first)
            yield self._leaves(thread_id, block.cell[first], sums)

    def timed(self, thread_id: int) -> Iterator[TimedLeaves]:
        """Yield the leaves of a thread with their times, each row by itself."""
        for block, weight in self._rows(thread_id):
            leaves = self._leaves(thread_id, block.cell, weight)
            yield TimedLeaves(block.t0_ns, block.cpu_ns, leaves)

    def _rows(self, thread_id: int) -> Iterator[tuple[Block, npt.NDArray[np.int64]]]:
        """Yield the rows of a thread that count, with their weights; some in each block."""
        for chunk in self.chunks:
            block = chunk.read(thread_id)
            if self.between_ns is not None:
                block = cut(block, *self.between_ns)
            weight = weigh(self.clock, self.state[block.cell], block.wall_ns, block.cpu_ns)
            some = (weight > 0) & self.counts[block.cell]
            if some.any():
                yield block.take(some), weight[some]

    def _leaves(
        self, thread_id: int, cell: npt.NDArray[np.int32], weight: npt.NDArray[np.int64]
    ) -> LeafWeights:
        ids = np.full(len(cell), thread_id, np.uint32)
        return LeafWeights(ids, self.node[cell], self.sysno[cell], weight)
