"""Time in bins: against a straightforward sum, and against the profile's own sums."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

import wire
from flametap.model import Activity, Clock
from flametap.recording.profile import intervals
from flametap.recording.profile.cell_keys import HOLDING, SLOTS
from flametap.recording.profile.store import Profile
from flametap.recording.profile.time_bins import STEP_NS, bins, level_for, step_ns, sums
from flametap.timeline import time_parts
from flametap.timeline.lanes import FULL, LaneQuery, Lanes, lanes
from flametap.timeline.time_sums import TimeSums, TimeView
from flametap.wire import abi
from time_rows import EPOLL_WAIT, FUTEX, READ, START_NS, Row, apply, naive, random_rows
from wire import PARKED, QUEUED, RUNNING


def all_bins(view: TimeView, level: int, first: int, n: int) -> dict[tuple[int, int], Any]:
    growths = view.growths(level, first, n)
    n_keys = view.n_keys
    found = bins(growths, np.arange(n_keys, dtype=np.int32), n_keys, first, n)
    each = sums(growths, n_keys, first, n)
    assert np.allclose(found.sum(axis=1), each, atol=1)
    ids = view.thread_ids.tolist()
    return {(ids[key // SLOTS], key % SLOTS): found[key] for key in range(n_keys)}


def compare(view: TimeView, rows: list[Row], level: int, first: int, n: int) -> None:
    expected = naive(rows, level)
    for (thread, slot), found in all_bins(view, level, first, n).items():
        if slot == HOLDING:
            assert not found.any()
            continue
        wanted = [expected[thread, slot][at] for at in range(first, first + n)]
        # Chunks round starts to 2⁻³² of their span.
        assert np.allclose(found, wanted, atol=200 * 40), (thread, slot)


@pytest.fixture(params=range(6))
def rng(request: pytest.FixtureRequest) -> random.Random:
    return random.Random(request.param)


def test_bins_equal_a_straightforward_sum(
    rng: random.Random, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(intervals, "CHUNK_ROWS", 64)
    monkeypatch.setattr(time_parts, "CHUNK_BINS", 32)
    monkeypatch.setattr(time_parts, "PIECE_ROWS", 16)
    profile = Profile()
    made = TimeSums(profile.moments)
    rows = random_rows(rng, 700, 5)
    apply(profile, START_NS, [Row(1, START_NS, 0, 0, RUNNING, -1)])
    threads = [wire.thread(at, at, f"t{at}") for at in range(1, 6)]
    apply(profile, START_NS + 1, [], threads=threads)
    for start in range(0, len(rows), 100):
        apply(profile, START_NS + 1, rows[start : start + 100])
        made.look()  # keys are numbered as they come
    end_ns = max(row.t0_ns + row.wall_ns for row in rows) - START_NS
    for level in (6, 9, 12, 14):
        n = end_ns // step_ns(level) + 1
        compare(made.look(), rows, level, 0, n)
        some = rng.randrange(n)
        compare(made.look(), rows, level, some, min(7, n - some))
    finest = end_ns // STEP_NS
    compare(made.look(), rows, 0, finest // 2, 20)


def test_bins_equal_the_profile(rng: random.Random, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(intervals, "CHUNK_ROWS", 128)
    profile = Profile()
    made = TimeSums(profile.moments)
    apply(profile, START_NS, [Row(1, START_NS, 1, 1, RUNNING, -1)])
    rows = random_rows(rng, 600, 4)
    apply(profile, max(row.t0_ns + row.wall_ns for row in rows), rows)
    level = level_for(profile.duration_ns, 50)
    first, n = rng.randrange(20), rng.randrange(1, 30)
    step = step_ns(level)
    found = all_bins(made.look(), level, first, n)
    t0_ns, t1_ns = START_NS + first * step, START_NS + (first + n) * step
    for thread in range(1, 5):
        spent = {slot: found[thread, slot].sum() for slot in range(HOLDING)}
        for clock, weight in (
            (Clock.CPU, spent[Activity.CPU]),
            (Clock.OFF_CPU, sum(spent.values()) - spent[Activity.CPU]),
            (Clock.WALL, sum(spent.values())),
        ):
            own = profile.leaf_weights(clock, frozenset({thread}), t0_ns, t1_ns).total
            assert weight == pytest.approx(own, abs=1000), (thread, clock)


def test_old_intervals_are_one_even_block(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(intervals, "CHUNK_ROWS", 100)
    profile = Profile(intervals_bytes=1)
    made = TimeSums(profile.moments)
    step = step_ns(9)
    rows = [Row(1, START_NS + at * step, step, step // 2, RUNNING, -1) for at in range(300)]
    apply(profile, START_NS + 300 * step, rows[:150])
    made.look()
    apply(profile, START_NS + 300 * step, rows[150:])
    found = lanes(made, LaneQuery(n_bins=300))
    assert found.even_ns == 200 * step
    assert found.all.sums_ns[Activity.CPU] == pytest.approx(150 * step, rel=1e-9)
    assert set(found.lanes[0].planes[Activity.CPU]) == {FULL // 2}


def asked(profile: Profile, **query: Any) -> Lanes:
    return lanes(TimeSums(profile.moments), LaneQuery(**query))


def test_open_interval_lasts_until_now_and_hidden_threads_are_not_shown() -> None:
    profile = Profile()
    threads = [wire.thread(1, 101, "main"), wire.thread(2, 102, "agent")]
    second = 10**9
    rows = [
        Row(1, START_NS, second, second, RUNNING, -1),
        Row(1, START_NS + second, 0, 0, PARKED, FUTEX, True),
        Row(2, START_NS, second, second, RUNNING, -1),
    ]
    apply(profile, START_NS + 4 * second, rows, threads=threads)
    made = TimeSums(profile.moments)
    both = lanes(made, LaneQuery(overview_bins=10))
    assert both.all.n_threads == 2
    assert both.overview
    assert both.overview.sums_ns[Activity.CPU] == 2 * second
    hidden = [wire.thread(2, 102, "agent", flags=abi.THREAD_HIDDEN)]
    apply(profile, START_NS + 4 * second, [], threads=hidden)
    found = lanes(made, LaneQuery(overview_bins=10))
    assert found.overview
    assert found.overview.sums_ns[Activity.CPU] == second
    assert [lane.thread.name for lane in found.lanes if lane.thread] == ["main"]
    assert found.rest is None
    spent = found.lanes[0].sums_ns
    assert (spent[Activity.CPU], spent[Activity.LOCK]) == (second, 3 * second)
    assert sum(spent) == 4 * second


def test_busy_threads_come_first_and_the_others_are_together() -> None:
    profile = Profile()
    second = 10**9
    threads = [wire.thread(at, 100 + at, f"t{at}") for at in range(1, 41)]
    rows = [
        row
        for at in range(1, 41)
        for row in (
            Row(
                at, START_NS, at * second // 100 if at > 30 else 0, at * second // 100, RUNNING, -1
            ),
            Row(at, START_NS + second, second, 0, PARKED, EPOLL_WAIT),
        )
        if row.wall_ns
    ]
    apply(profile, START_NS + 2 * second, rows, threads=threads)
    found = asked(profile, n_lanes=3, overview_bins=100)
    ids = [lane.thread.thread_id for lane in found.lanes if lane.thread]
    assert ids == [40, 39, 38]
    assert found.n_busy == 10
    assert found.rest
    assert found.rest.n_threads == 37
    assert found.all.n_threads == 40
    all_but_one = asked(profile, n_lanes=39, with_idle=True)
    assert (len(all_but_one.lanes), all_but_one.rest) == (40, None)  # in the room of "1 other"
    each = np.array([lane.sums_ns for lane in (*found.lanes, found.rest)])
    assert each.sum(axis=0).tolist() == found.all.sums_ns
    assert found.all.sums_ns[Activity.CPU] == profile.total_ns(Clock.CPU)
    assert sum(found.all.sums_ns) == profile.total_ns(Clock.WALL)
    assert found.overview
    assert found.overview.sums_ns[Activity.CPU] == profile.total_ns(Clock.CPU)
    page = asked(profile, n_lanes=3, skip=3)
    assert [lane.thread.thread_id for lane in page.lanes if lane.thread] == [37, 36, 35]
    idle = asked(profile, n_lanes=8, skip=8, with_idle=True)
    assert [lane.thread.thread_id for lane in idle.lanes if lane.thread] == [
        32,
        31,
        1,
        2,
        3,
        4,
        5,
        6,
    ]
    few = asked(profile, thread_ids=frozenset({3, 40}), also=(3,), n_lanes=1)
    assert [lane.thread.thread_id for lane in few.lanes if lane.thread] == [40, 3]
    assert few.rest is None
    exact = asked(profile, only=(5, 40, 7))
    assert [lane.thread.thread_id for lane in exact.lanes if lane.thread] == [5, 40, 7]


def test_newer_bins_lie_in_the_grid_of_the_older_ones() -> None:
    profile = Profile()
    rows = [Row(1, START_NS + at * 10**7, 10**7, 10**7, RUNNING, -1) for at in range(900)]
    apply(profile, START_NS + 9 * 10**9, rows, threads=[wire.thread(1, 101, "main")])
    whole = asked(profile, n_bins=300)
    part = asked(profile, start_ns=6 * 10**9, level=whole.bins.level)
    offset = (part.bins.start_ns - whole.bins.start_ns) / whole.bins.step_ns
    assert offset == int(offset)
    assert part.bins.level == whole.bins.level
    assert part.bins.count + offset == whole.bins.count
    # The bin that the range begins in is whole in both.
    planes = (lane.planes[Activity.CPU] for lane in (whole.lanes[0], part.lanes[0]))
    assert next(planes)[int(offset) :] == next(planes)


def test_time_with_the_gil_is_its_own_lane() -> None:
    profile = Profile()
    second = 10**9
    traces = [wire.trace(1, [wire.frame(1, 0x100)], marks=abi.MARK_LOCK_HELD)]
    rows = [
        Row(1, START_NS, second, second, RUNNING, -1),
        Row(2, START_NS, second, 0, PARKED, READ),
    ]
    apply(profile, START_NS + second, rows, traces=traces)
    found = asked(profile)
    assert found.gil
    assert found.gil.sums_ns == [2 * second]
    assert asked(Profile()).gil is None


def test_height_of_the_overview_is_what_runs_however_many_threads_wait() -> None:
    profile = Profile()
    second = 10**9
    rows = [Row(at, START_NS, second, 0, QUEUED, -1) for at in range(2, 40)]
    later = Row(1, START_NS + second, second, second // 2, RUNNING, -1)
    apply(
        profile,
        START_NS + 2 * second,
        [Row(1, START_NS, second, second, RUNNING, -1), later, *rows],
    )
    found = asked(profile, overview_bins=10).overview
    assert found
    cpu, queued = found.planes[Activity.CPU][0], found.planes[Activity.QUEUED][0]
    assert (cpu, queued) == (50, 50)
    assert found.planes[Activity.CPU][-2] == 25
    assert found.sums_ns == [second * 3 // 2, 38 * second + second // 2]


def test_an_empty_profile_has_no_lanes() -> None:
    found = asked(Profile(), overview_bins=10)
    assert found.lanes == []
    assert found.all.planes == {}
