"""Heat maps against straightforward sums."""

from __future__ import annotations

import random
from collections import Counter

import numpy as np
import pytest

from flametap.model import Activity
from flametap.recording.profile import intervals
from flametap.recording.profile.store import Profile
from flametap.recording.profile.time_bins import step_ns
from flametap.recording.profile.wait_rows import SHORTEST_NS, WAIT_ROWS, wait_row
from flametap.timeline import heat as heat_maps
from flametap.timeline import time_parts
from flametap.timeline.heat import Heat, HeatQuery, heat
from flametap.timeline.heat_sums import (
    CPU_LEVEL,
    ROWS_A_SECOND,
    choose,
    cpu_sums,
    wait_counts,
)
from flametap.timeline.lanes import FULL
from flametap.timeline.time_sums import TimeSums
from time_rows import ASLEEP, FUTEX, START_NS, Row, apply, naive, random_rows
from wire import BLOCKED, PARKED, QUEUED, RUNNING

SECOND = 10**9


def test_rows_of_durations_double_every_second_row() -> None:
    walls = np.array([SHORTEST_NS, 2 * SHORTEST_NS - 1, 2 * SHORTEST_NS, 4 * SHORTEST_NS, 1 << 60])
    assert wait_row(walls).tolist() == [0, 1, 2, 4, WAIT_ROWS - 1]


@pytest.mark.parametrize("seed", range(4))
def test_sums_equal_straightforward_ones(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(intervals, "CHUNK_ROWS", 64)
    monkeypatch.setattr(time_parts, "CHUNK_BINS", 32)
    monkeypatch.setattr(time_parts, "PIECE_ROWS", 16)
    rng = random.Random(seed)
    profile = Profile()
    made = TimeSums(profile.moments)
    apply(profile, START_NS, [Row(1, START_NS, 1, 1, RUNNING, -1)])
    rows = random_rows(rng, 500, 4)
    for start in range(0, len(rows), 100):
        apply(profile, START_NS + 1, rows[start : start + 100])
    view = made.look()
    who = frozenset({2, 3})
    choice = choose(view, who)
    n = (max(row.t0_ns + row.wall_ns for row in rows) - START_NS) // step_ns(CPU_LEVEL) + 1
    some = rng.randrange(n)
    for first, count in ((0, n), (some, min(500, n - some))):
        expected: Counter[int] = Counter()
        for (thread, activity), bins in naive(rows, CPU_LEVEL).items():
            if thread in who and activity is Activity.CPU:
                expected.update(bins)
        for _ in range(2):  # made, and then kept
            found = cpu_sums(view, choice, first, count)
            assert np.allclose(found, [expected[first + at] for at in range(count)], atol=2000)
    level = 16
    groups: Counter[tuple[int, int, int]] = Counter()
    for row in rows:
        if row.thread in who and row.state != RUNNING and row.wall_ns >= SHORTEST_NS:
            others = {int(QUEUED): Activity.QUEUED, int(BLOCKED): Activity.OTHER}
            activity = others[row.state] if row.state in others else ASLEEP[row.sysno]
            ended = (row.t0_ns + row.wall_ns - 1 - START_NS) // step_ns(level)
            groups[activity, int(wait_row(np.array([row.wall_ns]))[0]), ended] += 1
    waits = wait_counts(view, choice, level, 0, 100)
    assert waits.sum() == sum(groups.values())
    # A wait that ends near an edge may be in the next column: starts are rounded.
    wrong = sum(abs(int(waits[at]) - count) for at, count in groups.items())
    assert wrong <= 2


def asked(profile: Profile, **query: object) -> Heat:
    return heat(TimeSums(profile.moments), HeatQuery(**query))  # type: ignore[arg-type]


def test_a_second_is_a_column_and_busy_cpus_are_shown() -> None:
    profile = Profile()
    # Two threads are busy in the second half of each second.
    rows = [
        Row(thread, START_NS + at * SECOND + SECOND // 2, SECOND // 2, SECOND // 2, RUNNING, -1)
        for at in range(20)
        for thread in (1, 2)
    ]
    apply(profile, START_NS, [Row(1, START_NS, SECOND // 2, 0, PARKED, FUTEX)])
    apply(profile, START_NS + 20 * SECOND, rows)
    found = asked(profile)
    assert (found.n_columns, found.n_rows, found.step_ns) == (20, ROWS_A_SECOND, SECOND)
    assert found.most == pytest.approx(2.0)
    column = bytes(ROWS_A_SECOND // 2) + bytes([FULL]) * (ROWS_A_SECOND // 2)
    assert found.planes[Activity.CPU] == column * 20
    # Fewer columns: of several seconds each.
    few = asked(profile, n_columns=5)
    assert (few.n_columns, few.step_ns) == (5, 4 * SECOND)
    assert few.planes[Activity.CPU] == column * 5
    one = asked(profile, thread_ids=frozenset({1}))
    assert one.most == pytest.approx(1.0)
    assert one.planes == found.planes


def test_columns_of_minutes_show_their_average(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a heat map of weeks takes gigabytes."""
    profile = Profile()
    rows = [
        Row(thread, START_NS + at * SECOND, SECOND, SECOND // 2, RUNNING, -1)
        for thread in (1, 2)
        for at in range(0, 20, thread)
    ]
    apply(profile, START_NS + 20 * SECOND, sorted(rows, key=lambda row: row.t0_ns))
    for thread_ids in (None, frozenset({1})):
        exact = asked(profile, n_columns=5, thread_ids=thread_ids)
        with monkeypatch.context() as patched:
            patched.setattr(heat_maps, "MAX_CPU_BINS", 100)
            found = asked(profile, n_columns=5, thread_ids=thread_ids)
        assert found == exact


def test_waits_are_sorted_by_duration_and_cause() -> None:
    profile = Profile()
    ms = 10**6
    rows = [Row(1, START_NS + at * 10 * ms, 10 * ms, 0, PARKED, FUTEX) for at in range(400)]
    rows.append(Row(2, START_NS, 4 * SECOND, 0, BLOCKED, -1))
    apply(profile, START_NS + 4 * SECOND, rows)
    found = asked(profile, kind="waits", n_columns=4)
    assert set(found.planes) == {Activity.LOCK, Activity.OTHER}
    lock = np.frombuffer(found.planes[Activity.LOCK], np.uint8).reshape(-1, WAIT_ROWS)
    row = int(wait_row(np.array([10 * ms]))[0])
    assert (lock[:, row] > 0).sum() >= 4
    assert lock.sum() == lock[:, row].sum()
    other = np.frombuffer(found.planes[Activity.OTHER], np.uint8).reshape(-1, WAIT_ROWS)
    assert other.astype(bool).sum() == 1
    assert asked(Profile(), kind="waits").planes == {}
