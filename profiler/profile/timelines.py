"""List the leaves of one thread after another in order of time. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ..model import Clock
from .interval_chunk import Chunk, cut
from .leaves import LeafWeights
from .totals import weigh


@dataclass(frozen=True, eq=False)
class Timelines:
    """A snapshot of the intervals, with the columns of their cells. Any thread may call it.

    Called with a ``thread_id``, it yields the thread's leaves in order of time, in blocks. Adjacent
    rows of the same leaf are joined, rows without weight omitted; the sum equals the thread's
    total.
    """

    chunks: Sequence[Chunk]
    clock: Clock
    state: npt.NDArray[np.uint8]
    node: npt.NDArray[np.int32]
    sysno: npt.NDArray[np.int16]
    counts: npt.NDArray[np.bool_]  # others are omitted
    between_ns: tuple[int, int] | None = None  # only the parts of the intervals in this range

    def __call__(self, thread_id: int) -> Iterator[LeafWeights]:
        """Yield the leaves of a thread."""
        for chunk in self.chunks:
            block = chunk.read(thread_id)
            if self.between_ns is not None:
                block = cut(block, *self.between_ns)
            weight = weigh(self.clock, self.state[block.cell], block.wall_ns, block.cpu_ns)
            some = (weight > 0) & self.counts[block.cell]
            cell, weight = block.cell[some], weight[some]
            if not len(cell):
                continue
            nodes, sysnos = self.node[cell], self.sysno[cell]
            is_new = np.ones(len(cell), bool)
            is_new[1:] = (nodes[1:] != nodes[:-1]) | (sysnos[1:] != sysnos[:-1])
            first = np.flatnonzero(is_new)
            yield LeafWeights(
                np.full(len(first), thread_id, np.uint32),
                nodes[first],
                sysnos[first],
                np.add.reduceat(weight, first),
            )
