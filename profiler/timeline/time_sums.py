"""Sum the time of a growing profile in bins: by thread, and by what the thread did.

What a part adds is made once, when somebody first asks for it or ahead of that (``time_ahead``),
and kept beside it, in all levels from some ``most_bins`` bins on. A view with finer bins spans few
parts, and reads their intervals. So a view costs about the same, however long the recording is.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ..recording.profile.cell_keys import NONE, SLOTS, CellKeys, Cells
from ..recording.profile.interval_chunk import Block, block_of
from ..recording.profile.moments import Moments
from ..recording.profile.node_sums import NodeSums
from ..recording.profile.stored import StoredIntervals
from ..recording.profile.time_bins import (
    MAX_LEVEL,
    Growth,
    coarser,
    growth_of,
    joined,
    level_for,
    merged,
    step_ns,
)
from ..recording.profile.wait_stacks import WaitReader
from .time_parts import Part, Parts

Bools = npt.NDArray[np.bool_]
Int32s = npt.NDArray[np.int32]
Int64s = npt.NDArray[np.int64]

# What is kept takes 1 MB a part, where its intervals take 4, and 6 MB at worst: with many threads,
# there are fewer bins.
LEAST_BINS = 4
PART_SUMS = 1 << 17
_LEVELS = 64
MAX_READ = 16  # nodes of a file whose intervals are read for one view, at most …
MAX_SUMS = 32  # … and nodes whose sums are


class Columns(NamedTuple):
    """Intervals in columns, with the keys of their cells; times since ``TimeView.origin_ns``."""

    t0_ns: Int64s
    wall_ns: Int64s
    cpu_ns: Int64s
    waited_ns: Int64s  # the rest of its time
    held_ns: Int64s  # all of its time
    running: Int32s
    waiting: Int32s
    holding: Int32s
    is_running: Bools


class TimeSums:
    """The time of a profile in bins; see the module docstring. Any thread may call.

    Args:
        moments: takes a snapshot, with the cells from a number on.
        waits: tells waits for another thread's work from those for a lock; None for none.

    Attributes:
        changes: how often what was kept has become wrong, because names came late.
    """

    def __init__(self, moments: Callable[[int], Moments], waits: WaitReader | None = None) -> None:
        self._moments = moments
        self._waits = waits
        self.changes = 0
        self._lock = threading.Lock()
        self._keys = CellKeys()
        self._parts = Parts()
        self._origin_ns = 0

    def look(self) -> TimeView:
        """Take a snapshot."""
        with self._lock:
            now = self._moments(len(self._keys))
            self._extend(now.new_cells)
            stored = now.intervals.stored
            origin_ns = stored.origin_ns if stored is not None else now.start_ns
            self._origin_ns = self._origin_ns or origin_ns
            parts, tail = self._parts.of(now.intervals)
            rest = np.concatenate((tail, now.intervals.open))
            return TimeView(now, self._keys.snapshot(), parts, block_of(rest), self._origin_ns)

    def _extend(self, cells: Cells) -> None:
        if self._waits is None:
            self._keys.extend(cells, np.zeros(len(cells.waits.stack), bool))
            return
        changed = self._waits.changed()
        if changed:
            self._parts.forget(self._keys.change(changed))
            self.changes += 1
        self._keys.extend(cells, self._waits.are_for_work(cells.waits))


class TimeView:
    """The time of a profile at one moment, in bins whose edge 0 is at the start of the recording.

    That start is the one known when the first snapshot was taken; earlier intervals that come later
    are in negative bins.

    Attributes:
        now: the snapshot.
        keys: those of its cells.
        parts: most of its intervals …
        rest: … and the others that have their moments.
        origin_ns: the time of edge 0.
    """

    def __init__(
        self, now: Moments, keys: CellKeys, parts: Sequence[Part], rest: Block, origin_ns: int
    ) -> None:
        self.now = now
        self.keys = keys
        self.parts = parts
        self.rest = rest
        self.origin_ns = origin_ns
        self.thread_ids = np.array(keys.thread_ids, np.int64)

    @property
    def n_keys(self) -> int:
        """One more than the greatest key."""
        return self.keys.n_keys

    @property
    def shown(self) -> Bools:
        """Whether the thread of each index (``cell_keys``) is one of the target's."""
        hidden = np.array(self.now.hidden, np.int64)
        shown: Bools = ~np.isin(self.thread_ids, hidden)
        return shown

    def growths(
        self, level: int, first: int, n_bins: int, *, together: bool = False
    ) -> list[Growth]:
        """Return what some bins are summed up from.

        Args:
            level: of the bins.
            first: the first bin.
            n_bins: how many.
            together: do not tell threads apart: keys are those of index 0, for all shown threads.
        """
        t0_ns, t1_ns = self.between(level, first, n_bins)
        make = partial(self._growth, together=together)
        found = [
            self._kept(part, level, t0_ns, t1_ns, together)
            for part in self.parts_between(t0_ns, t1_ns)
        ]
        found += [make(level, rows) for rows in self.stored(level, t0_ns, t1_ns)]
        found.append(make(level, self.columns(within(self.rest, t0_ns, t1_ns))))
        if len(self.now.intervals.past):
            found.append(merged(make(level, self.past_columns())))
        return found

    def between(self, level: int, first: int, n_bins: int) -> tuple[int, int]:
        """Return the time of some bins, CLOCK_MONOTONIC of the target."""
        start_ns = self.origin_ns + first * step_ns(level)
        return start_ns, start_ns + n_bins * step_ns(level)

    def parts_between(self, t0_ns: int, t1_ns: int) -> list[Part]:
        """Return the parts that touch a range of time."""
        return [part for part in self.parts if part.start_ns < t1_ns and part.end_ns >= t0_ns]

    def stored(self, level: int, t0_ns: int, t1_ns: int) -> Iterator[Columns]:
        """Yield the time that is in a file, as rows that bins of a level are summed up from.

        Args:
            level: of the bins.
            t0_ns: start of the range of time.
            t1_ns: its end.

        Raises:
            InputError: it cannot be read, or makes no sense.
        """
        stored = self.now.intervals.stored
        if stored is None:
            return
        total_ns = 0.0
        for rows in self._stored(stored, level, t0_ns, t1_ns):
            total_ns += float(sum(each.sum(dtype=np.float64) for each in rows[2:5]))
            stored.check_total(total_ns / 2)  # each moment of a wait is there twice
            yield rows

    def _stored(
        self, stored: StoredIntervals, level: int, t0_ns: int, t1_ns: int
    ) -> Iterator[Columns]:
        yield self.columns(within(block_of(stored.singles), t0_ns, t1_ns))
        fine, coarse = stored.for_bins(level, t0_ns, t1_ns)
        # Of more, the time is spread over coarser bins.
        while len(coarse) > MAX_READ or len(fine) > MAX_SUMS:
            level += 1
            fine, coarse = stored.for_bins(level, t0_ns, t1_ns)
        for node in coarse:
            yield self.columns(within(stored.inside(node), t0_ns, t1_ns))
        if fine:
            binned = [self._binned(stored.sums(node)) for node in fine]
            yield Columns(*(np.concatenate(column) for column in zip(*binned, strict=True)))

    def _binned(self, node: NodeSums) -> Columns:
        """Return the bins of a node as rows that last as long as their bins."""
        keys, cell, step = self.keys, node.bins.cell, step_ns(node.level)
        by_cell = keys.running[cell], keys.waiting[cell], keys.holding[cell]
        weights = node.bins.cpu_ns, node.bins.off_ns, node.bins.wall_ns
        t0_ns = node.bins.bin.astype(np.int64) * step
        wall_ns = np.full(len(cell), step, np.int64)
        return Columns(t0_ns, wall_ns, *weights, *by_cell, keys.is_running[cell])

    def _kept(self, part: Part, level: int, t0_ns: int, t1_ns: int, together: bool) -> Growth:
        kept = self._finest_kept(part, together)
        if level < kept.level:
            rows = self.columns(within(part.read(), t0_ns, t1_ns))
            return self._growth(level, rows, together=together)
        return self._kept_coarser(part, kept, level, together)

    def prepare(self, part: Part) -> None:
        """Make what views of the whole recording add up for a part."""
        for together in (False, True):
            finest = self._finest_kept(part, together)
            self._kept_coarser(part, finest, MAX_LEVEL, together)

    def _which(self, together: bool) -> int:
        return len(self.now.hidden) if together else -1

    def _finest_kept(self, part: Part, together: bool) -> Growth:
        n_keys = SLOTS if together else max(1, self.n_keys)
        most = max(LEAST_BINS, min(part.most_bins, PART_SUMS // n_keys))
        make = partial(self._finest, part, most, together)
        kept: Growth = part.keep((f"finest {together}", self._which(together)), make, most=1)
        return kept

    def _kept_coarser(self, part: Part, kept: Growth, level: int, together: bool) -> Growth:
        while kept.level < level:
            key = f"level {together}", self._which(together), kept.level + 1
            kept = part.keep(key, partial(_next_level, kept), most=_LEVELS)
        return kept

    def _finest(self, part: Part, most: int, together: bool) -> Growth:
        level = level_for(part.end_ns - part.start_ns, most)
        return merged(self._growth(level, self.columns(part.read()), together=together))

    def _growth(self, level: int, rows: Columns, *, together: bool) -> Growth:
        keys: list[Int32s] = [rows.running, rows.waiting, rows.holding]
        if together:
            shown = self.shown
            keys = [
                np.where(shown[key // SLOTS] & (key >= 0), key % SLOTS, NONE).astype(np.int32)
                for key in keys
            ]
        time = rows.t0_ns, rows.wall_ns
        weights = rows.cpu_ns, rows.waited_ns, rows.held_ns
        return joined(
            [
                growth_of(level, key, *time, weight)
                for key, weight in zip(keys, weights, strict=True)
            ]
        )

    def columns(self, block: Block) -> Columns:
        """Return intervals with their keys."""
        keys, cell, wall = self.keys, block.cell, block.wall_ns
        runs = keys.is_running[cell]
        waited = np.where(runs, np.maximum(wall - block.cpu_ns, 0), wall)
        by_cell = keys.running[cell], keys.waiting[cell], keys.holding[cell], runs
        return Columns(block.t0_ns - self.origin_ns, wall, block.cpu_ns, waited, wall, *by_cell)

    def past_columns(self) -> Columns:
        """Return a row for each cell of what has lost its moments: its sum, in all of that time."""
        past = self.columns(block_of(self.now.intervals.past))
        start_ns, end_ns = self.now.intervals.past_ns
        t0_ns = np.full(len(past.t0_ns), start_ns - self.origin_ns)
        wall_ns = np.full(len(past.t0_ns), max(1, end_ns - start_ns))
        return past._replace(t0_ns=t0_ns, wall_ns=wall_ns)


def _next_level(growth: Growth) -> Growth:
    return merged(coarser(growth))


def within(block: Block, t0_ns: int, t1_ns: int) -> Block:
    """Return the intervals that touch a range of time, whole."""
    some = (block.t0_ns < t1_ns) & (block.t0_ns + block.wall_ns >= t0_ns)
    if some.all():
        return block
    t0, wall, cpu, cell = block
    return Block(t0[some], wall[some], cpu[some], cell[some])
