"""Time by what threads did with the interpreter's lock."""

from __future__ import annotations

import pytest

import wire
from flametap.model import Clock, LockState
from flametap.recording.profile.store import Profile
from flametap.wire.abi import MARK_LOCK_AWAITED, MARK_LOCK_HELD, MARK_LOCK_RELEASED
from gil_profiles import MAIN_THREAD, MS, READER, WORKER, gil_profile
from profiles import apply, small_profile


@pytest.fixture(scope="module")
def profile() -> Profile:
    return gil_profile()[0]


def test_times_of_each_thread(profile: Profile) -> None:
    times = profile.lock_times(Clock.WALL)
    assert times == {
        LockState.HELD: {MAIN_THREAD: 60 * MS, WORKER: 35 * MS},
        LockState.AWAITED: {MAIN_THREAD: 40 * MS, WORKER: 60 * MS, READER: 10 * MS},
        LockState.RELEASED: {WORKER: 5 * MS, READER: 90 * MS},
    }
    assert sum(sum(each.values()) for each in times.values()) == profile.total_ns(Clock.WALL)
    infos = {info.thread_id: info for info in profile.thread_infos()}
    assert (infos[WORKER].gil_held_ns, infos[WORKER].gil_awaited_ns) == (35 * MS, 60 * MS)
    assert (infos[READER].gil_held_ns, infos[READER].gil_awaited_ns) == (0, 10 * MS)
    infos = {
        info.thread_id: info
        for info in profile.thread_infos((profile.start_ns + 50 * MS, profile.start_ns + 70 * MS))
    }
    assert (infos[WORKER].gil_held_ns, infos[WORKER].gil_awaited_ns) == (10 * MS, 10 * MS)
    for info in infos.values():
        assert info.cpu_ns + info.off_cpu_ns == info.wall_ns == 20 * MS


@pytest.mark.parametrize(("clock", "ms"), [(Clock.CPU, 80), (Clock.WALL, 95), (Clock.OFF_CPU, 15)])
def test_only_time_with_the_lock(profile: Profile, clock: Clock, ms: int) -> None:
    assert profile.leaf_weights(clock, holding=True).total == ms * MS
    worker = frozenset({WORKER})
    of_worker = profile.leaf_weights(clock, worker, holding=True)
    assert set(of_worker.thread_id.tolist()) == {WORKER}
    timelines = profile.timelines(clock, holding=True)
    assert sum(block.total for block in timelines(WORKER)) == of_worker.total
    assert list(timelines(READER)) == []
    ends = profile.leaf_weights(clock, None, profile.start_ns + 90 * MS, holding=True)
    assert ends.total == (0 if clock is Clock.CPU else 10 * MS)


def test_samples_with_the_lock(profile: Profile) -> None:
    assert profile.leaf_samples(Clock.CPU, holding=True).total == 2
    assert profile.leaf_samples(Clock.CPU).total == 2
    assert profile.leaf_samples(Clock.WALL, holding=True).total == 3


def test_program_without_interpreter() -> None:
    profile, _ = small_profile()
    assert not profile.has_lock
    assert profile.leaf_weights(Clock.CPU, holding=True).total == 0
    assert not any(profile.lock_times(Clock.WALL).values())
    assert gil_profile()[0].has_lock


@pytest.mark.parametrize(
    ("marks", "has_lock"),
    [(MARK_LOCK_HELD, True), (MARK_LOCK_AWAITED, True), (MARK_LOCK_RELEASED, False), (0, False)],
)
def test_build_without_a_lock(marks: int, has_lock: bool) -> None:
    profile = Profile()
    apply(profile, 1, traces=[wire.trace(1, [wire.managed_frame(1)], marks=marks)])
    assert profile.has_lock == has_lock
