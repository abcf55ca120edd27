"""List the leaves of one thread after another in order of time. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ..model import Clock
from .interval_chunk import Block, Chunk, cut
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

    Yields a thread's leaves in order of time, in blocks. Adjacent rows of the same leaf are joined,
    rows without weight omitted; the sum equals the thread's total.
    """

    chunks: Sequence[Chunk]
    clock: Clock
    state: npt.NDArray[np.uint8]
    node: npt.NDArray[np.int32]
    sysno: npt.NDArray[np.int16]
    counts: npt.NDArray[np.bool_]  # others are omitted
    between_ns: tuple[int, int] | None = None  # only the parts of the intervals in this range

    def __call__(self, thread_id: int) -> Iterator[LeafWeights]:
        """Yield the leaves of a thread. What is between them in time is as if it were not."""
        for block, weight in self._rows(thread_id):
            first = np.flatnonzero(self._changes(block))
            yield self._joined(thread_id, block, weight, first)

    def timed(self, thread_id: int) -> Iterator[TimedLeaves]:
        """Yield the leaves of a thread with their times. Rows with time between are not joined."""
        for block, weight in self._rows(thread_id):
            end_ns = block.t0_ns + block.wall_ns
            is_new = self._changes(block)
            is_new[1:] |= block.t0_ns[1:] > end_ns[:-1]
            first = np.flatnonzero(is_new)
            leaves = self._joined(thread_id, block, weight, first)
            cpu_ns = np.add.reduceat(block.cpu_ns, first)
            yield TimedLeaves(block.t0_ns[first], cpu_ns, leaves)

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

    def _changes(self, block: Block) -> npt.NDArray[np.bool_]:
        """Return which rows have another leaf than the row before."""
        node, sysno = self.node[block.cell], self.sysno[block.cell]
        is_new = np.ones(len(node), bool)
        is_new[1:] = (node[1:] != node[:-1]) | (sysno[1:] != sysno[:-1])
        return is_new

    def _joined(
        self,
        thread_id: int,
        block: Block,
        weight: npt.NDArray[np.int64],
        first: npt.NDArray[np.intp],
    ) -> LeafWeights:
        cell = block.cell[first]
        return LeafWeights(
            np.full(len(first), thread_id, np.uint32),
            self.node[cell],
            self.sysno[cell],
            np.add.reduceat(weight, first),
        )
