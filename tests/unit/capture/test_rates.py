"""The rates of a recording, and what is said of them."""

from __future__ import annotations

import pytest

from flametap.capture.rates import CPU_TIMERS, ROUNDS, Rates

TIMERS = {"engine_now": 1, "rate_mhz_now": 100_000, "cpu_rate_mhz_now": 100_000}
CAUSE = "to stay within 1 % of a core (--budget 0: no limit)"


def rates(cpu_samples: int = 0, seen_s: float = 0.0, **counters: int) -> Rates:
    return Rates.of(100.0, {**TIMERS, **counters}, cpu_samples, int(seen_s * 1e9))


def test_each_rate_is_the_one_in_force() -> None:
    found = rates(980, 10, rate_mhz_now=12_500, cpu_rate_mhz_now=97_000)
    assert (found.engine, found.rate_hz, found.look_rate_hz) == (CPU_TIMERS, 97.0, 12.5)
    assert found.effective_rate_hz == 98.0


def test_rounds_have_one_rate_and_a_start_has_the_one_asked_for() -> None:
    found = Rates.of(100.0, {"engine_now": 0, "rate_mhz_now": 40_000, "cpu_rate_mhz_now": 0}, 0, 0)
    assert (found.engine, found.rate_hz, found.look_rate_hz) == (ROUNDS, 40.0, 40.0)
    found = Rates.of(100.0, {}, 0, 0)
    assert (found.engine, found.rate_hz, found.look_rate_hz) == ("", 100.0, 100.0)
    assert found.effective_rate_hz == 0.0


def test_note_where_the_tick_is_too_slow_for_the_rate() -> None:
    found = rates(2480, 10, rate_mhz_now=1_000_000, cpu_rate_mhz_now=1_000_000)
    assert found.notes(1000.0, 0, 0, tick_hz=250) == [
        "the kernel's timers tick 250 times a second: 248 samples a second of CPU time "
        "instead of 1,000"
    ]


def test_note_where_samples_are_missing_for_no_reason_of_the_kernels() -> None:
    assert rates(500, 10).notes(100.0, 0, 0, tick_hz=250) == [
        "50 samples a second of CPU time instead of 100: each sample counts for more time"
    ]


@pytest.mark.parametrize(("cpu_samples", "seen_s"), [(950, 10.0), (10, 1.0), (0, 0.0)])
def test_no_note_where_samples_come_as_asked_or_are_too_few_to_tell(
    cpu_samples: int, seen_s: float
) -> None:
    assert rates(cpu_samples, seen_s).notes(100.0, 0, 0, tick_hz=250) == []


def test_rounds_are_not_measured_by_the_tick() -> None:
    assert rates(500, 10, engine_now=0).notes(100.0, 0, 0, tick_hz=250) == []


def test_budget_lowers_looks_first_and_the_note_says_both() -> None:
    looks = rates(rate_mhz_now=12_000).notes(100.0, 10_000, 2)
    assert looks == [
        f"looks at sleeping threads lowered from 100 to 12 Hz {CAUSE}; "
        "running threads are sampled as often as before"
    ]
    both = rates(rate_mhz_now=12_000, cpu_rate_mhz_now=48_000).notes(100.0, 10_000, 2)
    assert both == [
        f"rate lowered from 100 to 48 Hz {CAUSE}; "
        "looks at sleeping threads lowered from 100 to 12 Hz"
    ]


def test_budget_with_rounds_and_for_a_while() -> None:
    counters = {"engine_now": 0, "rate_mhz_now": 40_000, "cpu_rate_mhz_now": 40_000}
    assert rates(**counters).notes(100.0, 10_000, 1) == [f"rate lowered from 100 to 40 Hz {CAUSE}"]
    assert rates().notes(100.0, 10_000, 1) == [f"rate lowered once, for a while, {CAUSE}"]
    assert rates().notes(100.0, 10_000, 3) == [f"rate lowered 3 times, for a while, {CAUSE}"]
