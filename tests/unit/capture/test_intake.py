"""How often the ring is read, and what happens when it cannot be."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any, cast

import pytest

import wire
from flametap.capture.intake import LATER_S, SOON_S, Intake
from flametap.errors import FlametapError
from flametap.model import Clock
from flametap.recording.numbers import Numbers, ProcessNumbers
from flametap.recording.profile.store import Profile
from flametap.wire.abi import RING_BYTES, THREAD_EXITED
from flametap.wire.decoder import Decoder
from flametap.wire.events import joined

LONG_NS = 60_000_000_000
FIRST = wire.batch(1, intervals=[wire.interval(1, 1, 1, 1, 1)])


class FakeRing:
    """A ring with some bytes."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    def read(self) -> bytes:
        data, self.data = self.data, b""
        return data

    def counters(self) -> dict[str, int]:
        return {"ticks": 7}

    def handler_quantiles_ns(self) -> tuple[int, int]:
        return 5_000, 9_000


class NoSymbolizer:
    """Takes whatever is new."""

    def __getattr__(self, name: str) -> Any:
        return lambda *_: None


def read(intake: Intake, data: bytes) -> None:
    intake.read(cast(Any, FakeRing(data)), cast(Any, NoSymbolizer()))


@pytest.fixture
def intake() -> Intake:
    return Intake(Profile(), ProcessNumbers(Numbers(), 0), 0, lambda: None)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time in seconds. It changes only when a test changes it."""
    now_s = [1000.0]
    of_test = SimpleNamespace(monotonic=lambda: now_s[0])
    monkeypatch.setattr("flametap.capture.intake.time", of_test)
    return now_s


def test_ring_is_read_soon_in_the_first_seconds_and_for_a_page(clock: list[float]) -> None:
    intake = Intake(Profile(), ProcessNumbers(Numbers(), 0), 0, lambda: None)
    assert intake.due_in_s(is_watched=False) == SOON_S
    read(intake, FIRST + wire.batch(LONG_NS))
    assert intake.due_in_s(is_watched=False) == LATER_S
    assert intake.due_in_s(is_watched=True) == SOON_S
    clock[0] += 2 * LATER_S
    assert intake.due_in_s(is_watched=False) == -LATER_S


def test_ring_that_fills_up_is_read_sooner(clock: list[float]) -> None:
    intake = Intake(Profile(), ProcessNumbers(Numbers(), 0), 0, lambda: None)
    read(intake, FIRST)
    batch = wire.batch(LONG_NS, intervals=[wire.interval(1, 1, 1, 1, 1)] * 500)
    for part, pause_s in (4, 0.25), (30, SOON_S), (0, LATER_S):
        clock[0] += 1
        read(intake, batch * (part * RING_BYTES // 16 // len(batch) + 1))
        assert intake.due_in_s(is_watched=False) == pytest.approx(pause_s, rel=0.05)


@pytest.mark.parametrize("seed", range(20))
def test_batches_that_are_read_together_are_as_good_as_one_by_one(seed: int) -> None:
    rng, batches, open_ns = random.Random(seed), [], dict.fromkeys((1, 2, 3), 0)
    for number in range(1, 30):
        now_ns, intervals, threads = 1000 * number, [], []
        for thread_id, since_ns in list(open_ns.items()):
            action = rng.random()
            if since_ns and action < 0.3:  # goes on
                intervals.append((thread_id, since_ns, now_ns - since_ns, True))
            elif since_ns and action < 0.9:
                intervals.append((thread_id, since_ns, now_ns - 500 - since_ns, False))
                open_ns[thread_id] = 0
            elif since_ns and action > 0.97:  # the record that ends it was lost
                threads.append(wire.thread(thread_id, thread_id, "one", flags=THREAD_EXITED))
                del open_ns[thread_id]
            if not since_ns:
                open_ns[thread_id] = now_ns - rng.randrange(1, 500)
                intervals.append((thread_id, open_ns[thread_id], 1, True))
        records = [
            wire.interval(thread_id, 1 + number % 3, t0_ns, wall_ns, is_open=is_open)
            for thread_id, t0_ns, wall_ns, is_open in intervals
        ]
        traces = [wire.trace(number % 3 + 1, [wire.frame(1, number % 3)])] if number < 4 else []
        batches.append(wire.batch(now_ns, threads=threads, traces=traces, intervals=records))
    single, whole = Profile(), Profile()
    for each in Decoder().feed(b"".join(batches)):
        single.apply(each)
    together = joined(Decoder().feed(b"".join(batches)))
    assert len(together) < len(batches) / 2
    for each in together:
        whole.apply(each)
    assert whole.thread_infos() == single.thread_infos()
    for clock_of in Clock:
        assert whole.total_ns(clock_of) == single.total_ns(clock_of)
    assert whole.samples == single.samples


def test_damaged_data_end_the_reading_and_leave_the_figures(intake: Intake) -> None:
    read(intake, wire.batch(LONG_NS))
    read(intake, b"\xff" * 64)
    assert isinstance(intake.error, FlametapError)
    assert intake.figures()[0]["ticks"] == 7
    assert intake.figures()[1] == (5_000, 9_000)
