"""Sum time for heat maps: CPU time in small bins, and waits by how long they lasted. Pure.

As in ``time_sums``, what a part adds is made once and kept beside it: for the last few choices of
threads. ``time_ahead`` makes it ahead for all threads.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ..model import Activity
from ..recording.profile.cell_keys import SLOTS
from ..recording.profile.interval_chunk import Block, block_of
from ..recording.profile.time_bins import SECOND_LEVEL, bins, growth_of, level_for, step_ns
from ..recording.profile.wait_rows import SHORTEST_NS, WAIT_ROWS, wait_row
from .time_parts import Part
from .time_sums import Columns, TimeView, within

Bools = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]
Int64s = npt.NDArray[np.int64]

CPU_LEVEL = SECOND_LEVEL - 6
ROWS_A_SECOND = 1 << (SECOND_LEVEL - CPU_LEVEL)
N_ACTIVITIES = len(Activity)
_MAX_PART_BINS = 1 << 17  # half an hour; a part that is longer is read each time
_CHOICES = 2  # of threads

_KEY_0 = np.zeros(1, np.int32)


class Choice(NamedTuple):
    """The threads that count."""

    thread_ids: frozenset[int] | None  # None for all
    wanted: Bools  # by index (``cell_keys``)
    n_hidden: int

    def key(self, kind: str) -> tuple[str, frozenset[int] | None, int]:
        """Return what is kept for this choice is kept under."""
        return kind, self.thread_ids, self.n_hidden


class _Sums(NamedTuple):
    first: int
    each: npt.NDArray[np.float32]


class _Waits(NamedTuple):
    level: int
    at: Int64s  # the bin in which each group of waits ended
    what: Int64s  # row * N_ACTIVITIES + activity
    number: Int64s  # of waits in each


def choose(view: TimeView, thread_ids: frozenset[int] | None) -> Choice:
    """Return a choice of threads; None for all."""
    wanted = view.shown
    if thread_ids is not None:
        wanted &= np.isin(view.thread_ids, np.array(sorted(thread_ids), np.int64))
    return Choice(thread_ids, wanted, len(view.now.hidden))


def cpu_sums(view: TimeView, choice: Choice, first: int, n_bins: int) -> Floats:
    """Return the CPU time in bins of ``CPU_LEVEL``, nanoseconds.

    Args:
        view: the snapshot.
        choice: of threads.
        first: the first bin.
        n_bins: how many.
    """
    t0_ns, t1_ns = view.between(CPU_LEVEL, first, n_bins)
    found = np.zeros(n_bins)

    def add(part: _Sums) -> None:
        low, high = max(first, part.first), min(first + n_bins, part.first + len(part.each))
        if low < high:
            found[low - first : high - first] += part.each[low - part.first : high - part.first]

    for part in view.parts_between(t0_ns, t1_ns):
        if _is_kept(part):
            add(_kept_cpu(view, choice, part))
        else:
            block = within(part.read(), t0_ns, t1_ns)
            add(_cpu(view.columns(block), choice, first, n_bins))
    for rows in view.stored(CPU_LEVEL, t0_ns, t1_ns):
        add(_cpu(rows, choice, first, n_bins))
    add(_cpu(view.columns(within(view.rest, t0_ns, t1_ns)), choice, first, n_bins))
    if len(view.now.intervals.past):
        add(_cpu(view.past_columns(), choice, first, n_bins))
    return found


def column_sums(view: TimeView, choice: Choice, level: int, first: int, n_bins: int) -> Floats:
    """Return the CPU time in bins of any level, nanoseconds; arguments as for ``cpu_sums``."""
    together = choice.thread_ids is None
    rows = np.full((1 if together else len(view.thread_ids), SLOTS), -1, np.int32)
    rows[slice(None) if together else choice.wanted, Activity.CPU] = 0
    growths = view.growths(level, first, n_bins, together=together)
    found: Floats = bins(growths, rows.ravel(), 1, first, n_bins)[0]
    return found


def prepare_heat(view: TimeView, choice: Choice, part: Part) -> None:
    """Make what heat maps of a choice of threads add up for a part."""
    if _is_kept(part):
        _kept_cpu(view, choice, part)
    _kept_waits(view, choice, part)


def _is_kept(part: Part) -> bool:
    return part.end_ns - part.start_ns < _MAX_PART_BINS * step_ns(CPU_LEVEL)


def _kept_cpu(view: TimeView, choice: Choice, part: Part) -> _Sums:
    make = partial(_part_cpu, view, choice, part)
    kept: _Sums = part.keep(choice.key("cpu"), make, most=_CHOICES)
    return kept


def _part_cpu(view: TimeView, choice: Choice, part: Part) -> _Sums:
    step = step_ns(CPU_LEVEL)
    first = (part.start_ns - view.origin_ns) // step
    n_bins = (part.end_ns - view.origin_ns) // step + 1 - first
    return _cpu(view.columns(part.read()), choice, first, n_bins)


def _cpu(rows: Columns, choice: Choice, first: int, n_bins: int) -> _Sums:
    key = np.where(choice.wanted[rows.running // SLOTS], 0, -1).astype(np.int32)
    growth = growth_of(CPU_LEVEL, key, rows.t0_ns, rows.wall_ns, rows.cpu_ns)
    return _Sums(first, bins([growth], _KEY_0, 1, first, n_bins)[0].astype(np.float32))


def wait_counts(view: TimeView, choice: Choice, level: int, first: int, n_bins: int) -> Int64s:
    """Return how many waits ended in each bin, by activity and row of duration.

    One that goes on ends now. What has lost its moments is left out.

    Args:
        view: the snapshot.
        choice: of threads.
        level: of the bins.
        first: the first bin.
        n_bins: how many.
    """
    t0_ns, t1_ns = view.between(level, first, n_bins)
    found = np.zeros(N_ACTIVITIES * WAIT_ROWS * n_bins, np.int64)

    def add(part: _Waits) -> None:
        at = (part.at >> (level - part.level)) - first
        some = (at >= 0) & (at < n_bins)
        row, activity = np.divmod(part.what[some], N_ACTIVITIES)
        np.add.at(found, (activity * WAIT_ROWS + row) * n_bins + at[some], part.number[some])

    for part in view.parts_between(t0_ns, t1_ns):
        if level < _kept_level(part):
            add(_waits(view, choice, level, within(part.read(), t0_ns, t1_ns)))
        else:
            add(_kept_waits(view, choice, part))
    for each in _stored_waits(view, choice, level, t0_ns, t1_ns):
        add(each)
    add(_waits(view, choice, level, within(view.rest, t0_ns, t1_ns)))
    return found.reshape(N_ACTIVITIES, WAIT_ROWS, n_bins)


def _kept_level(part: Part) -> int:
    return level_for(part.end_ns - part.start_ns, part.most_bins)


def _kept_waits(view: TimeView, choice: Choice, part: Part) -> _Waits:
    make = partial(_part_waits, view, choice, part)
    kept: _Waits = part.keep(choice.key("waits"), make, most=_CHOICES)
    return kept


def _part_waits(view: TimeView, choice: Choice, part: Part) -> _Waits:
    return _waits(view, choice, _kept_level(part), part.read())


def _stored_waits(
    view: TimeView, choice: Choice, level: int, t0_ns: int, t1_ns: int
) -> Iterator[_Waits]:
    """Yield the waits that are in a file."""
    stored = view.now.intervals.stored
    if stored is None:
        return
    yield _waits(view, choice, level, within(block_of(stored.singles), t0_ns, t1_ns))
    fine, coarse = stored.for_bins(level, t0_ns, t1_ns)
    for node in coarse:
        yield _waits(view, choice, level, within(stored.inside(node), t0_ns, t1_ns))
    for node in fine:
        sums = stored.sums(node)
        waits = sums.waits
        index, activity = np.divmod(view.keys.waiting[waits.cell].astype(np.int64), SLOTS)
        some = choice.wanted[index]
        what = (waits.row * N_ACTIVITIES + activity)[some].astype(np.int64)
        yield _Waits(sums.level, waits.bin[some].astype(np.int64), what, waits.number[some])


def _waits(view: TimeView, choice: Choice, level: int, block: Block) -> _Waits:
    """Group waits by when they ended, how long they lasted, and why."""
    rows = view.columns(block)
    index, activity = np.divmod(rows.waiting.astype(np.int64), SLOTS)
    some = choice.wanted[index] & (rows.wall_ns >= SHORTEST_NS) & ~rows.is_running
    # The last moment: what ends now, or goes on, is in the last bin.
    ended = (rows.t0_ns[some] + rows.wall_ns[some] - 1) // step_ns(level)
    what = wait_row(rows.wall_ns[some]) * N_ACTIVITIES + activity[some]
    groups, count = np.unique(ended << 16 | what, return_counts=True)
    return _Waits(level, groups >> 16, groups & 0xFFFF, count.astype(np.int64))
