"""Numbers as people read them."""

from __future__ import annotations

import pytest

from flametap.recording.figures import counted, short_time, three_digits


@pytest.mark.parametrize(
    ("ns", "text"),
    [
        (250, "250 ns"),
        (1_750, "1.75 µs"),
        (41_234, "41.2 µs"),
        (999_400, "999 µs"),
        (999_600, "1 ms"),
        (2_160_000, "2.16 ms"),
        (3_100_000_000, "3.1 s"),
        (7_200_000_000_000, "7,200 s"),
    ],
)
def test_short_times(ns: int, text: str) -> None:
    assert short_time(ns) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (0.123, "0.123"), (99.96, "100"), (248.06, "248"), (1000, "1,000"), (1e4, "10,000")],
)
def test_three_digits_without_exponent(value: float, text: str) -> None:
    assert three_digits(value) == text


def test_one_is_singular() -> None:
    assert [counted(n, "call") for n in (0, 1, 1200)] == ["0 calls", "1 call", "1,200 calls"]
