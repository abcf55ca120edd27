"""Leaves in order of time: cut to a range, they add up to what the sums of that range say."""

from __future__ import annotations

import random

import pytest

import wire
from flametap.model import Clock
from flametap.recording.profile import intervals
from flametap.recording.profile.store import Profile
from profiles import apply, random_profile


def by_thread(profile: Profile, clock: Clock, *between_ns: int | None) -> dict[int, int]:
    leaves = profile.leaf_weights(clock, None, *between_ns)
    found: dict[int, int] = {}
    for thread, weight in zip(leaves.thread_id.tolist(), leaves.weight.tolist(), strict=True):
        found[thread] = found.get(thread, 0) + weight
    return found


@pytest.mark.parametrize("clock", Clock)
@pytest.mark.parametrize(
    "between_ns", [(None, None), (2_000, 10**9), (10**8, None), (10**12, None)]
)
def test_sums_of_a_range_are_those_of_the_tree(
    clock: Clock, between_ns: tuple[int | None, int | None]
) -> None:
    profile, _ = random_profile(random.Random(11))
    timeline = profile.timelines(clock, *between_ns)
    exact = by_thread(profile, clock, *between_ns)
    for thread in profile.threads:
        listed = sum(block.total for block in timeline(thread))
        # Start times in a packed chunk are rounded.
        assert listed == pytest.approx(exact.get(thread, 0), rel=1e-6, abs=2)


def test_range_cuts_what_lies_across_its_ends() -> None:
    profile = Profile()
    apply(
        profile,
        100,
        threads=[wire.thread(1, 1, "a")],
        traces=[wire.trace(1, [wire.frame(0, 1)]), wire.trace(2, [wire.frame(0, 2)])],
        intervals=[wire.interval(1, 1, 10, 40, 40), wire.interval(1, 2, 50, 50, 10)],
    )
    weights = [block.weight.tolist() for block in profile.timelines(Clock.CPU, 40, 75)(1)]
    assert weights == [[10, 5]]


def test_sums_of_the_past_have_their_share_in_a_range(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(intervals, "CHUNK_ROWS", 64)
    profile = Profile(intervals_bytes=1)
    for at in range(10):
        rows = [
            wire.interval(1, 1, 1_000 * (64 * at + i), 1_000, 1_000, wire.RUNNING)
            for i in range(64)
        ]
        apply(
            profile,
            64_000 * (at + 1),
            threads=[wire.thread(1, 1, "a")],
            traces=[wire.trace(1, [wire.frame(0, 1)])],
            intervals=rows,
        )
    assert profile.losses()["intervals_merged"] > 0
    for between_ns in ((0, 640_000), (64_000, 320_000), (100_500, 630_000)):
        exact = by_thread(profile, Clock.CPU, *between_ns)[1]
        assert exact == pytest.approx(between_ns[1] - between_ns[0], rel=0.01)
        listed = sum(block.total for block in profile.timelines(Clock.CPU, *between_ns)(1))
        assert listed == pytest.approx(exact, rel=1e-3)
