"""The dead-man rule, the governor, the gaps between rounds, the turns of idle threads, recipes, by
literal clocks and costs."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from agent_build import build_driver, run_driver
from flametap.agent import C_SOURCES
from flametap.wire.abi import HANDLER_HISTOGRAM_BUCKETS, HOST_SILENCE_NS
from flametap.wire.ring import bucket_end_ns

DRIVER = Path(__file__).parent / "upkeep_cases.c"
ASKED_MHZ = 1_000_000
LOOKS_PER_S = 50_000  # idle.c


@pytest.fixture(scope="module")
def cases(
    require_capability: Callable[[str], str],
) -> dict[str, list[int]]:
    require_capability("sanitizers")
    program = build_driver(DRIVER, C_SOURCES)
    lines = run_driver(program).decode().splitlines()
    return {name: [int(n) for n in rest] for name, *rest in (line.split() for line in lines)}


@pytest.mark.parametrize("case", ["silent_from_the_start", "silent_at_low_rate"])
def test_without_a_beat_it_ends(cases: dict[str, list[int]], case: str) -> None:
    assert cases[case] == [HOST_SILENCE_NS]


def test_it_ends_when_the_beats_end(cases: dict[str, list[int]]) -> None:
    assert cases["silent_after_ten_seconds"] == [10_000_000_000 + HOST_SILENCE_NS]


def test_beats_keep_it_alive(cases: dict[str, list[int]]) -> None:
    assert cases["never_silent"] == [0]


def test_where_it_waits_long_for_a_cpu_the_host_has_more_time(cases: dict[str, list[int]]) -> None:
    assert cases["machine_is_overloaded"] == [4 * HOST_SILENCE_NS]


def test_time_in_which_it_stood_still_itself_hardly_counts(cases: dict[str, list[int]]) -> None:
    assert cases["target_was_stopped_for_a_minute"] == [0]


def test_within_the_budget_the_rate_is_what_was_asked(cases: dict[str, list[int]]) -> None:
    assert set(cases["no_need"]) == {ASKED_MHZ}


def test_above_the_budget_the_rate_falls_once_and_stays(cases: dict[str, list[int]]) -> None:
    # 30 us a sample, 1 % of a core: 333 Hz would just do.
    assert len(set(cases["too_dear"])) == 1
    assert 250_000 < cases["too_dear"][-1] < 333_334


def test_with_room_the_rate_comes_back_and_no_further(cases: dict[str, list[int]]) -> None:
    rates = cases["then_cheap"]
    assert rates == sorted(rates)
    assert rates[-1] == ASKED_MHZ


def test_cost_that_does_not_depend_on_the_rate_makes_it_converge(
    cases: dict[str, list[int]],
) -> None:
    # 8 ms whatever the rate, 20 us a sample: 100 Hz is what fits.
    rates = cases["mostly_fixed"]
    assert rates == sorted(rates, reverse=True)
    assert 50_000 < rates[-1] <= 100_000
    assert rates[-1] == rates[-5]


def test_the_rate_never_falls_to_nothing(cases: dict[str, list[int]]) -> None:
    assert cases["fixed_alone_is_too_much"][-1] == 1_000


def test_noise_does_not_make_it_swing(cases: dict[str, list[int]]) -> None:
    settled = cases["noisy"][20:]
    ups_and_downs = sum(a != b for a, b in pairwise(settled))
    assert ups_and_downs <= 10
    assert min(settled) > 150_000


def test_timers_leave_samples_as_asked_and_lower_the_rounds(cases: dict[str, list[int]]) -> None:
    rounds_mhz, samples_mhz, period_ns, left_out = cases["dear_rounds"]
    assert samples_mhz == 100_000
    assert 12_000 <= rounds_mhz <= 18_000  # 9 ms of 10, at 0.5 ms a round
    assert period_ns == pytest.approx(1e12 / rounds_mhz, rel=1e-3)
    assert left_out == 0


def test_rounds_below_ten_a_second_leave_threads_out(cases: dict[str, list[int]]) -> None:
    """They stay as often, since new threads would be noticed late."""
    looks_mhz, samples_mhz, period_ns, left_out = cases["dear_looks"]
    assert samples_mhz == 100_000
    assert 1_200 <= looks_mhz <= 1_800  # 9 ms of 10, at 5 ms a look at all threads
    assert period_ns == 100_000_000
    assert left_out == pytest.approx(1e6 * (1 - looks_mhz / 10_000), abs=2_000)
    looks_mhz, _, period_ns, left_out = cases["few_asked"]
    assert 1_200 <= looks_mhz <= 1_800
    assert period_ns == 200_000_000  # as asked
    assert left_out == pytest.approx(1e6 * (1 - looks_mhz / 5_000), abs=2_000)


def test_samples_that_cost_too_much_are_lowered_too(cases: dict[str, list[int]]) -> None:
    rounds_mhz, samples_mhz, *_ = cases["dear_samples"]
    assert rounds_mhz == 100_000
    assert 5_000 <= samples_mhz <= 7_500  # three quarters of 1 % of a core, at 1 ms a sample


def test_no_budget_is_no_limit(cases: dict[str, list[int]]) -> None:
    assert cases["no_limit"] == [0]


def test_gaps_between_rounds_are_exponential(cases: dict[str, list[int]]) -> None:
    mean_ns, longest_ns, below_half, above_two = cases["gaps"]
    scale = 1 / (1 - math.exp(-2))  # what the cut at two periods takes off is put on all
    assert mean_ns == pytest.approx(1_000_000, rel=0.01)
    assert longest_ns == pytest.approx(2_000_000 * scale, rel=0.01)
    assert below_half / 1e6 == pytest.approx(1 - math.exp(-0.5 / scale), abs=0.01)
    assert above_two / 1e6 == pytest.approx(math.exp(-2 / scale), abs=0.01)


def test_few_idle_threads_are_looked_at_in_each_round(cases: dict[str, list[int]]) -> None:
    assert cases["few_idle"] == [100, 500 * 100, 100, 100]


@pytest.mark.parametrize(
    ("case", "expected_per_s"),
    [
        ("many_idle", LOOKS_PER_S),
        ("many_idle_at_a_high_rate", LOOKS_PER_S),
        ("many_idle_on_a_budget", 1_250),  # 2 us each: a quarter of 1 % of a core
    ],
)
def test_many_idle_threads_take_turns(
    cases: dict[str, list[int]], case: str, expected_per_s: int
) -> None:
    looks_at_busy, looks_per_s, fewest, most = cases[case]
    assert looks_at_busy == 100
    assert 0.9 * expected_per_s < looks_per_s < 1.1 * expected_per_s
    assert most - fewest <= 1


def test_thread_that_shares_a_cpu_has_not_stood_still(cases: dict[str, list[int]]) -> None:
    before_ns, longest_ns, after_ns = cases["longest_run"]
    # Of three threads each runs a third; with its waits that is all but what a hypervisor takes.
    # Less than half would be taken for a stop. Between two of its clocks it may wait, too.
    assert 0.6 * before_ns - (after_ns - before_ns) <= longest_ns
    assert longest_ns <= 1.1 * after_ns


def test_all_threads_are_drained_at_once(cases: dict[str, list[int]]) -> None:
    """One after another, 159 busy threads of two programs on two CPUs took 156 s to detach."""
    assert cases["drained_together"] == [3]


def test_recipes_in_use_are_those_of_the_last_call(cases: dict[str, list[int]]) -> None:
    refused, used = cases["recipes"][::2], cases["recipes"][1::2]
    assert used == [0b11, 0b110, 0, 0b1, 2**64 - 1]
    assert refused == [0, 0, 0, 0, 1]


def test_time_waiting_for_a_cpu_with_the_interpreters_lock(cases: dict[str, list[int]]) -> None:
    busy_ms, idle_ms = cases["queued_with_lock"]
    assert busy_ms == pytest.approx(7_000, abs=500)
    assert idle_ms == 0
    # By the last stack alone, where nothing else is known.
    assert cases["queued_after_release"] == cases["queued_with_unknown_lock"] == [0]


def test_a_thread_that_starts_is_noticed_soon_and_among_many_at_bounded_cost(
    cases: dict[str, list[int]],
) -> None:
    assert cases["thread_noticed_among_few"] == [1, 3]  # of threads that live 10 ms, most are seen
    assert cases["thread_noticed_among_many"] == [1, 12]


def test_late_signal_of_a_clock_is_not_the_program_s(cases: dict[str, list[int]]) -> None:
    assert cases["late_signal_of_a_clock"] == [1, 0]
    # The program's own is put where it would have waited, and the thread is left alone.
    assert cases["signal_without_a_clock"] == [0, 1]


def test_rest_of_cpu_time_is_where_the_thread_ran_last(cases: dict[str, list[int]]) -> None:
    """Not at the end of the recording, where it may have slept for long."""
    assert cases["rest_of_cpu_time"] == [1_000, 3]


def test_a_program_that_dies_takes_a_hundredth_of_the_recording_with_it(
    cases: dict[str, list[int]],
) -> None:
    assert cases["flush_pauses"] == [10, 10, 50, 100]


def test_host_knows_where_the_buckets_of_a_handlers_time_end(cases: dict[str, list[int]]) -> None:
    times, buckets = cases["buckets"][::2], cases["buckets"][1::2]
    last = HANDLER_HISTOGRAM_BUCKETS - 1
    for ns, bucket in zip(times, buckets, strict=True):
        assert bucket == last or ns < bucket_end_ns(bucket)
        assert not bucket or ns >= bucket_end_ns(bucket - 1)
    assert buckets[-3:] == [0, 1, 2]
    assert bucket_end_ns(last - 1) > 10_000_000
