"""How often the ring is read, and what happens when it cannot be."""

from __future__ import annotations

from typing import Any, cast

import pytest

import wire
from flametap.capture.intake import LATER_S, SOON_S, Intake
from flametap.errors import FlametapError
from flametap.profile.store import Profile
from flametap.wire.abi import RING_BYTES

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
    return Intake(Profile(), lambda: None)


def test_ring_is_read_soon_in_the_first_seconds_and_for_a_page(intake: Intake) -> None:
    assert intake.pause_s(is_watched=False) == SOON_S
    read(intake, FIRST + wire.batch(LONG_NS))
    assert intake.pause_s(is_watched=False) == LATER_S
    assert intake.pause_s(is_watched=True) == SOON_S


def test_ring_that_fills_up_is_read_soon(intake: Intake) -> None:
    batch = wire.batch(LONG_NS)
    read(intake, FIRST + batch * (RING_BYTES // 16 // len(batch) + 1))
    assert intake.pause_s(is_watched=False) == SOON_S
    read(intake, batch)
    assert intake.pause_s(is_watched=False) == LATER_S


def test_damaged_data_end_the_reading_and_leave_the_figures(intake: Intake) -> None:
    read(intake, wire.batch(LONG_NS))
    read(intake, b"\xff" * 64)
    assert isinstance(intake.error, FlametapError)
    assert intake.figures()[0]["ticks"] == 7
    assert intake.figures()[1] == (5_000, 9_000)
