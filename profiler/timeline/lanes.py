"""Draw up the lanes of a timeline: what each thread did over time, in bins.

A plane is the part of each bin that a thread spent in one activity, in ``FULL`` parts. What is
missing to a full bin was not recorded: the thread had not begun, had ended, or sampling paused.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ..model import Activity, Split, Thread
from ..recording.profile.cell_keys import HOLDING, SLOTS
from ..recording.profile.time_bins import bins, level_for, step_ns, sums
from .lane_groups import LaneGroups, lane_groups
from .time_sums import TimeSums, TimeView

FULL = 50
MAX_BINS = 1440
MAX_LANES = 64
N_ACTIVITIES = len(Activity)
# A thread that is busy for less of the time is idle.
IDLE_SHARE = 0.001
LEAST_LANES = 4
LEAST_CPUS = 0.02  # of the overview's scale

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
Indexes = npt.NDArray[np.intp]


@dataclass(frozen=True)
class LaneQuery:
    """Which lanes are wanted. Times are nanoseconds since the start of the recording.

    Attributes:
        start_ns: of the time that the lanes show.
        end_ns: its end; None for now.
        n_bins: at most so many bins.
        level: the level of the bins (``time_bins``); None for the finest that fits.
        thread_ids: only these threads; None for all.
        n_lanes: so many of the busiest threads.
        skip: after so many that are still busier.
        also: these, too, if they are not among them.
        only: the lanes of exactly these threads instead.
        with_idle: also threads that did next to nothing.
        overview_bins: also the CPU time of the whole recording, in at most so many bins; 0 without.
        split: what has a lane. That of a process or program is asked for by its first thread.
    """

    start_ns: int = 0
    end_ns: int | None = None
    n_bins: int = 600
    level: int | None = None
    thread_ids: frozenset[int] | None = None
    n_lanes: int = LEAST_LANES
    skip: int = 0
    also: tuple[int, ...] = ()
    only: tuple[int, ...] = ()
    with_idle: bool = False
    overview_bins: int = 0
    split: Split = Split.THREAD


@dataclass(frozen=True)
class Lane:
    """One lane.

    Attributes:
        planes: for each activity that occurs, a number 0 … ``FULL`` for each bin.
        sums_ns: the time in each ``Activity`` in all bins together; exact.
        thread: the thread; None for several. Of a process or a program the first one, by its name.
        n_threads: how many.
        scale_ns: the time that ``FULL`` parts of a bin mean. Of a process or a program that of all
            threads that are drawn, when most of them were there.
        thread_ids: of a process or a program.
        n_processes: of a program: how many.
    """

    planes: dict[Activity, bytes]
    sums_ns: list[int]
    thread: Thread | None
    n_threads: int
    scale_ns: float
    thread_ids: tuple[int, ...] = ()
    n_processes: int = 1


@dataclass(frozen=True)
class Bins:
    """Where bins lie: bin 0 starts at ``start_ns`` since the start of the recording."""

    start_ns: int
    level: int
    count: int

    @property
    def step_ns(self) -> int:
        """The length of each."""
        return step_ns(self.level)


@dataclass(frozen=True)
class Lanes:
    """The answer to a ``LaneQuery``.

    Attributes:
        bins: those of all lanes.
        all: all threads together.
        lanes: the busiest threads.
        rest: the other threads together, two at least; None if there are none.
        gil: the time in which a thread held the GIL, as if it were ``CPU``; None if none did.
        overview_bins: those of the overview.
        overview: the CPU time, and the time waiting for a CPU, of the whole recording.
        n_busy: how many threads are not idle.
        duration_ns: of the recording.
        even_ns: up to here only sums are known: they are spread evenly.
    """

    bins: Bins
    all: Lane
    lanes: list[Lane]
    rest: Lane | None
    gil: Lane | None
    overview_bins: Bins | None
    overview: Lane | None
    n_busy: int
    duration_ns: int
    even_ns: int


def lanes(time_sums: TimeSums, query: LaneQuery) -> Lanes:
    """Return the lanes that a query asks for."""
    view = time_sums.look()
    wanted = view.shown
    if query.thread_ids is not None:
        wanted &= np.isin(view.thread_ids, np.array(sorted(query.thread_ids), np.int64))
    duration_ns = max(0, view.now.now_ns - view.now.start_ns)
    end_ns = duration_ns if query.end_ns is None else min(query.end_ns, duration_ns)
    start_ns = max(0, min(query.start_ns, end_ns))
    level = query.level
    if level is None or end_ns - start_ns > step_ns(level) * MAX_BINS:
        level = level_for(end_ns - start_ns, min(query.n_bins, MAX_BINS))
    window = _Window(view, level, start_ns, end_ns)
    spent = window.spent()
    groups = lane_groups(view.thread_ids, view.now, query.split)
    by_group = groups.sums(np.where(wanted[:, None], spent, 0.0))
    ids = view.thread_ids[groups.lead]
    chosen, n_busy = _choose(ids, query, by_group)
    works = by_group.sum(axis=1) > 0
    others = np.setdiff1d(np.flatnonzero(works), chosen)
    if len(others) == 1 and len(chosen) and not query.only:
        chosen, others = np.concatenate((chosen, others)), others[:0]  # takes no more room so
    shown = groups.shown(wanted & (spent.sum(axis=1) > 0), _busy(spent))
    drawn = window.lanes(groups, shown, chosen, others)
    overview_bins = overview = None
    if query.overview_bins:
        level = level_for(duration_ns, query.overview_bins)
        together = query.thread_ids is None
        whole = _Window(view, level, 0, duration_ns, together=together)
        overview_bins, overview = whole.bins, whole.overview(None if together else wanted)
    intervals = view.now.intervals
    past_end_ns = intervals.past_ns[1] if len(intervals.past) else 0
    return Lanes(
        window.bins,
        drawn.all,
        drawn.lanes,
        drawn.rest,
        drawn.gil,
        overview_bins,
        overview,
        n_busy,
        duration_ns,
        max(0, past_end_ns - view.now.start_ns),
    )


def _work(spent: Floats) -> Floats:
    """Return the time of each row that ran, or wanted to."""
    found: Floats = spent[:, Activity.CPU] + spent[:, Activity.QUEUED]
    return found


def _busy(spent: Floats) -> Bools:
    """Return whether each row is not idle."""
    found: Bools = _work(spent) > IDLE_SHARE * spent.sum(axis=1)
    return found


def _choose(
    ids: npt.NDArray[np.int64], query: LaneQuery, spent: Floats
) -> tuple[npt.NDArray[np.intp], int]:
    """Return the groups that get a lane, and how many groups are busy.

    Args:
        ids: of each group: that of its first thread.
        query: the range of time, and which lanes.
        spent: the time of each group in each activity.
    """
    whole, work = spent.sum(axis=1), _work(spent)
    some = np.flatnonzero(whole > 0)
    some = some[np.lexsort((ids[some], -whole[some], -work[some]))]
    n_busy = int(np.count_nonzero(_busy(spent)[some]))
    if query.only:
        place = {thread_id: at for at, thread_id in enumerate(query.only)}
        chosen = np.flatnonzero(np.isin(ids, np.array(query.only, np.int64)))
        order = sorted(chosen.tolist(), key=lambda index: place[int(ids[index])])
        return np.array(order, np.intp), n_busy
    most = len(some) if query.with_idle else max(n_busy, LEAST_LANES)
    chosen = some[:most][query.skip : query.skip + min(query.n_lanes, MAX_LANES)]
    also = some[np.isin(ids[some], np.array(query.also, np.int64))]
    return np.concatenate((chosen, np.setdiff1d(also, chosen))), n_busy


class _Drawn(NamedTuple):
    all: Lane
    lanes: list[Lane]
    rest: Lane | None
    gil: Lane | None


class _Window:
    """The bins that cover a range of time, nanoseconds since the start of the recording."""

    def __init__(
        self, view: TimeView, level: int, start_ns: int, end_ns: int, *, together: bool = False
    ) -> None:
        step = step_ns(level)
        shift_ns = view.now.start_ns - view.origin_ns
        self._view = view
        self._first = (start_ns + shift_ns) // step
        self._count = max(1, -(-(end_ns + shift_ns) // step) - self._first)
        self._growths = view.growths(level, self._first, self._count, together=together)
        self.bins = Bins(self._first * step - shift_ns, level, self._count)

    def spent(self) -> Floats:
        """Return the time of each thread in each activity: a row for each index."""
        found = sums(self._growths, self._view.n_keys, self._first, self._count)
        return found.reshape(-1, SLOTS)[:, :N_ACTIVITIES]

    def _sum(self, row_of_key: npt.NDArray[np.int32], n_rows: int) -> Floats:
        return bins(self._growths, row_of_key.ravel(), n_rows, self._first, self._count)

    def lanes(self, groups: LaneGroups, shown: Bools, chosen: Indexes, others: Indexes) -> _Drawn:
        """Return the lanes of some groups of threads, of the others together, and of all.

        Args:
            groups: all of them.
            shown: whether each thread counts.
            chosen: those that get a lane.
            others: those that get one together.
        """
        lane_of = np.full(len(groups.lead), -1, np.int32)
        lane_of[chosen] = np.arange(len(chosen))
        lane_of[others] = len(chosen)
        lane = np.where(shown, lane_of[groups.of], -1)
        rows = np.full((len(lane), SLOTS), -1, np.int32)
        drawn = np.flatnonzero(lane >= 0)
        activities = np.arange(N_ACTIVITIES, dtype=np.int32)
        rows[drawn, :N_ACTIVITIES] = lane[drawn, None] * N_ACTIVITIES + activities
        n_rows = (len(chosen) + 1) * N_ACTIVITIES
        rows[drawn, HOLDING] = n_rows
        found = self._sum(rows, n_rows + 1)
        by_lane = found[:-1].reshape(len(chosen) + 1, N_ACTIVITIES, self._count)
        n_rest = int(np.count_nonzero(lane == len(chosen)))
        each = [
            self._group_lane(groups, group, sums_)
            for group, sums_ in zip(chosen.tolist(), by_lane[:-1], strict=True)
        ]
        together = by_lane.sum(axis=0)
        rest = self._lane(by_lane[-1], max(1, n_rest)) if len(others) else None
        if rest is not None:
            rest = replace(rest, n_threads=len(others))
        held = found[-1]
        gil = self._lane(held[None, :], 1) if held.any() else None
        whole = replace(
            self._lane(together, max(1, len(drawn))), n_threads=len(chosen) + len(others)
        )
        return _Drawn(whole, each, rest, gil)

    def _group_lane(self, groups: LaneGroups, group: int, by_activity: Floats) -> Lane:
        ids, threads = self._view.thread_ids, self._view.now.threads
        lead = int(ids[groups.lead[group]])
        thread = threads.get(lead) or Thread(lead, 0, "")  # nothing else is known of it
        if groups.name is None:
            return self._lane(by_activity, 1, thread)
        members: list[int] = ids[groups.of == group].tolist()
        ended = all(each in threads and threads[each].exited for each in members)
        thread = replace(thread, name=groups.name(thread), exited=ended)
        at_once_ns = max(float(by_activity.sum(axis=0).max()), float(self.bins.step_ns))
        lane = self._lane(by_activity, 1, thread, at_once_ns)
        of = {threads[each].process for each in members if each in threads}
        return replace(lane, thread_ids=tuple(members), n_processes=len(of))

    def overview(self, wanted: Bools | None) -> Lane:
        """Return the time on a CPU, on a scale up to its maximum; beside it, that waiting for one.

        However many threads wait, the height says what runs: a burst of work is seen.

        Args:
            wanted: the threads that count; None if these bins do not tell them apart.
        """
        rows = np.full((1 if wanted is None else len(wanted), SLOTS), -1, np.int32)
        for activity in (Activity.CPU, Activity.QUEUED):
            rows[slice(None) if wanted is None else wanted, activity] = activity
        found = self._sum(rows, 2)
        sums_ns = np.rint(found.sum(axis=1)).astype(np.int64).tolist()
        scale_ns = max(float(found[0].max()), LEAST_CPUS * self.bins.step_ns)
        parts = np.rint(FULL * np.minimum(found / scale_ns, 1)).astype(np.uint8)
        planes = {Activity(at): part.tobytes() for at, part in enumerate(parts) if part.any()}
        return Lane(planes, sums_ns, None, 1, scale_ns)

    def _lane(
        self,
        by_activity: Floats,
        n_threads: int,
        thread: Thread | None = None,
        scale_ns: float = 0.0,
    ) -> Lane:
        scale_ns = scale_ns or float(self.bins.step_ns * n_threads)
        # Intervals are placed to some milliseconds only: a thread's may overlap.
        most = np.maximum(by_activity.sum(axis=0), scale_ns)
        parts = np.rint(by_activity * (FULL / most)).astype(np.uint8)
        planes = {Activity(at): part.tobytes() for at, part in enumerate(parts) if part.any()}
        sums_ns = np.rint(by_activity.sum(axis=1)).astype(np.int64).tolist()
        return Lane(planes, sums_ns, thread, n_threads, scale_ns)
