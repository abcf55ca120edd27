"""Sum the time of a growing profile in bins: by thread, and by what the thread did.

The bins of a chunk are made once, when somebody first asks for them, and kept beside it, in all
levels from some ``CHUNK_BINS`` bins a chunk on. A view with finer bins spans few chunks, and reads
their intervals. So a view costs about the same, however long the recording is.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from ..model import Thread
from .cell_keys import SLOTS, CellKeys, Cells
from .interval_chunk import Block, Chunk, Rows, block_of
from .time_bins import Growth, coarser, growth_of, joined, level_for, merged, step_ns

Int32s = npt.NDArray[np.int32]

CHUNK_BINS = 512
CHUNK_SUMS = 1 << 20  # fewer bins for a chunk with very many threads


class Moments(NamedTuple):
    """A snapshot of a profile's intervals. Times are the target's CLOCK_MONOTONIC, nanoseconds."""

    chunks: Sequence[Chunk]
    rest: Rows  # those that are in no chunk
    past: Rows  # one for each cell: the sum of what has lost its moments …
    past_ns: tuple[int, int]  # … in this time
    new_cells: Cells
    threads: Mapping[int, Thread]  # by ``thread_id``
    hidden: Sequence[int]  # threads that are not the target's
    start_ns: int
    now_ns: int


class _Keys(NamedTuple):
    """The columns of ``CellKeys`` at one moment."""

    running: Int32s
    waiting: Int32s
    holding: Int32s
    is_running: npt.NDArray[np.bool_]


class TimeSums:
    """The time of a profile in bins; see the module docstring. Any thread may call.

    Args:
        moments: takes a snapshot, with the cells from a number on.
    """

    def __init__(self, moments: Callable[[int], Moments]) -> None:
        self._moments = moments
        self._lock = threading.Lock()
        self._keys = CellKeys()
        self._chunks: WeakKeyDictionary[Chunk, _ChunkBins] = WeakKeyDictionary()
        self._origin_ns = 0

    def look(self) -> TimeView:
        """Take a snapshot."""
        with self._lock:
            now = self._moments(len(self._keys))
            self._keys.extend(now.new_cells)
            self._origin_ns = self._origin_ns or now.start_ns
            keys = self._keys
            columns = _Keys(keys.running, keys.waiting, keys.holding, keys.is_running)
            ids = np.array(keys.thread_ids, np.int64)
            return TimeView(now, columns, ids, self._origin_ns, self._bins_of)

    def _bins_of(self, chunk: Chunk) -> _ChunkBins:
        with self._lock:
            found = self._chunks.get(chunk)
            if found is None:
                found = self._chunks[chunk] = _ChunkBins()
        return found


class TimeView:
    """The time of a profile at one moment, in bins whose edge 0 is at the start of the recording.

    That start is the one known when the first snapshot was taken; earlier intervals that come later
    are in negative bins.

    Attributes:
        now: the snapshot.
        thread_ids: the thread of each ``index`` (``cell_keys``).
        origin_ns: the time of edge 0.
    """

    def __init__(
        self,
        now: Moments,
        keys: _Keys,
        thread_ids: npt.NDArray[np.int64],
        origin_ns: int,
        bins_of: Callable[[Chunk], _ChunkBins],
    ) -> None:
        self.now = now
        self.thread_ids = thread_ids
        self.origin_ns = origin_ns
        self._keys = keys
        self._bins_of = bins_of

    @property
    def n_keys(self) -> int:
        """One more than the greatest key."""
        return SLOTS * len(self.thread_ids)

    @property
    def shown(self) -> npt.NDArray[np.bool_]:
        """Whether the thread of each index is one of the target's."""
        shown: npt.NDArray[np.bool_] = ~np.isin(
            self.thread_ids, np.array(self.now.hidden, np.int64)
        )
        return shown

    def growths(self, level: int, first: int, n_bins: int) -> list[Growth]:
        """Return what some bins are summed up from.

        Args:
            level: of the bins.
            first: the first bin.
            n_bins: how many.
        """
        step = step_ns(level)
        t0_ns = self.origin_ns + first * step
        t1_ns = t0_ns + n_bins * step
        found = []
        for chunk in self.now.chunks:
            if chunk.start_ns >= t1_ns or chunk.end_ns < t0_ns:
                continue
            growth = self._bins_of(chunk).at(level, chunk, self)
            if growth is None:
                growth = self.growth_of_block(level, _within(chunk.read(), t0_ns, t1_ns))
            found.append(growth)
        rest = _within(block_of(self.now.rest), t0_ns, t1_ns)
        found.append(self.growth_of_block(level, rest))
        if len(self.now.past):
            found.append(self._past_growth(level))
        return found

    def growth_of_block(self, level: int, block: Block) -> Growth:
        """Return the growth of intervals with their moments."""
        keys, cell = self._keys, block.cell
        t0_ns, wall = block.t0_ns - self.origin_ns, block.wall_ns
        waited = np.where(keys.is_running[cell], np.maximum(wall - block.cpu_ns, 0), wall)
        return joined(
            (
                growth_of(level, keys.running[cell], t0_ns, wall, block.cpu_ns),
                growth_of(level, keys.waiting[cell], t0_ns, wall, waited),
                growth_of(level, keys.holding[cell], t0_ns, wall, wall),
            )
        )

    def _past_growth(self, level: int) -> Growth:
        """Spread the sums of old intervals over their time."""
        past, keys = self.now.past, self._keys
        cell, wall, cpu = past["cell"], past["wall_ns"], past["cpu_ns"]
        waited = np.where(keys.is_running[cell], np.maximum(wall - cpu, 0), wall)
        start_ns, end_ns = self.now.past_ns
        t0_ns = np.full(len(past), start_ns - self.origin_ns)
        lasts_ns = np.full(len(past), max(1, end_ns - start_ns))
        spread = (
            growth_of(level, keys.running[cell], t0_ns, lasts_ns, cpu),
            growth_of(level, keys.waiting[cell], t0_ns, lasts_ns, waited),
            growth_of(level, keys.holding[cell], t0_ns, lasts_ns, wall),
        )
        return merged(joined(spread))


class _ChunkBins:
    """The growth of one chunk in its levels, made when they are first asked for."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._levels: dict[int, Growth] = {}

    def at(self, level: int, chunk: Chunk, view: TimeView) -> Growth | None:
        """Return the growth in a level; None if it is finer than those that are kept."""
        with self._lock:
            levels = self._levels
            if not levels:
                most = max(16, min(CHUNK_BINS, CHUNK_SUMS // max(1, view.n_keys)))
                finest = level_for(chunk.end_ns - chunk.start_ns, most)
                levels[finest] = merged(view.growth_of_block(finest, chunk.read()))
            if level < min(levels):
                return None
            for missing in range(max(levels) + 1, level + 1):
                levels[missing] = merged(coarser(levels[missing - 1]))
            return levels[level]


def _within(block: Block, t0_ns: int, t1_ns: int) -> Block:
    """Return the intervals that touch a range of time, whole."""
    some = (block.t0_ns < t1_ns) & (block.t0_ns + block.wall_ns >= t0_ns)
    if some.all():
        return block
    t0, wall, cpu, cell = block
    return Block(t0[some], wall[some], cpu[some], cell[some])
