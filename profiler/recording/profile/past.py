"""Keep the sums of intervals that are too old to be kept one by one.

For each cell: how much of it lies in the past, which is one span of time. A view of a part of that
span gets its share of each sum.
"""

from __future__ import annotations

import numpy as np

from .interval_chunk import ROW_DTYPE, Block, Chunk, Rows
from .totals import Int64s


class Past:
    """The sums of old intervals by cell; see the module docstring. Times are nanoseconds."""

    def __init__(self) -> None:
        self._wall = np.zeros(0, np.int64)
        self._cpu = np.zeros(0, np.int64)
        self._start_ns = 0
        self._end_ns = 0

    @property
    def between_ns(self) -> tuple[int, int]:
        """The time in which the intervals were."""
        return self._start_ns, self._end_ns

    def add(self, chunk: Chunk, n_cells: int) -> None:
        """Add the intervals of a chunk.

        Args:
            chunk: the next in order of time.
            n_cells: the number of cells that there are now.
        """
        if not len(self._wall):
            self._start_ns, self._end_ns = chunk.start_ns, chunk.end_ns
        self._start_ns = min(self._start_ns, chunk.start_ns)
        self._end_ns = max(self._end_ns, chunk.end_ns)
        missing = n_cells - len(self._wall)
        if missing > 0:
            self._wall = np.append(self._wall, np.zeros(missing, np.int64))
            self._cpu = np.append(self._cpu, np.zeros(missing, np.int64))
        block = chunk.read()
        np.add.at(self._wall, block.cell, block.wall_ns)
        np.add.at(self._cpu, block.cell, block.cpu_ns)

    def block(self, t0_ns: int, t1_ns: int) -> Block:
        """Return one row for each cell with weight: its share between two times."""
        span_ns = self._end_ns - self._start_ns
        inside_ns = min(t1_ns, self._end_ns) - max(t0_ns, self._start_ns)
        share = min(1.0, max(0, inside_ns) / span_ns) if span_ns > 0 else 1.0
        cell = np.flatnonzero(self._wall | self._cpu).astype(np.int32)
        return Block(
            np.full(len(cell), self._start_ns, np.int64),
            _part(self._wall[cell], share),
            _part(self._cpu[cell], share),
            cell,
        )

    def rows(self, between_ns: tuple[int, int] | None = None) -> Rows:
        """Return one row for each cell with weight, as if it had begun at the start.

        Args:
            between_ns: only the share of this range of time, with its start; None for all.
        """
        start_ns, end_ns = between_ns or (self._start_ns, self._end_ns)
        block = self.block(start_ns, end_ns)
        block.t0_ns[:] = max(start_ns, self._start_ns)
        rows = np.zeros(len(block.cell), ROW_DTYPE)
        for name in ("t0_ns", "wall_ns", "cpu_ns", "cell"):
            rows[name] = getattr(block, name)
        return rows


def _part(sums: Int64s, share: float) -> Int64s:
    return sums if share == 1.0 else np.rint(sums * share).astype(np.int64)
