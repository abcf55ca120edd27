"""The time of a recording without its pauses."""

from __future__ import annotations

import time

import pytest

from flametap.capture.pauses import Pauses

SECOND = 10**9


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Our clock, which has another zero than the target's."""
    now = [77 * SECOND]
    monkeypatch.setattr(time, "monotonic_ns", lambda: now[0])
    return now


def test_time_neither_jumps_nor_goes_back(clock: list[int]) -> None:
    paused = Pauses()
    start = now = 1000 * SECOND

    def elapsed() -> int:
        return now - start - paused.until(now)

    def go_on(seconds: int, *, batches: bool) -> None:
        nonlocal now
        clock[0] += seconds * SECOND
        now += seconds * SECOND if batches else 0

    paused.set(False, now)  # nothing to end
    go_on(10, batches=True)
    assert elapsed() == 10 * SECOND
    paused.set(True, now)
    go_on(60, batches=False)
    paused.set(True, now)
    assert elapsed() == 10 * SECOND
    paused.set(False, now)
    assert elapsed() == 10 * SECOND, "the first batch after the pause has not come yet"
    now += 61 * SECOND
    clock[0] += SECOND
    assert elapsed() == 11 * SECOND
    paused.set(True, now)
    now += SECOND // 100  # a last batch
    assert elapsed() == 11 * SECOND
    go_on(5, batches=False)
    paused.set(False, now)
    go_on(3, batches=False)
    now = start + (10 + 61 + 5 + 3) * SECOND
    assert elapsed() == 14 * SECOND
