"""A recording next to what the kernel says: what is a difference, and what is not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from flametap.capture.kernel_check import Comparison

SECOND = 1_000_000_000
SAME = Comparison(
    threads=4,
    duration_ns=10 * SECOND,
    kernel_user_ns=6 * SECOND,
    kernel_system_ns=4 * SECOND,
    page_faults=1000,
    seen_ns=10 * SECOND,
    seen_system_ns=4 * SECOND,
    seen_unblocking_ns=0,
    without_stack_ns=0,
    samples=1000,
    kernel_total_ns=10 * SECOND,
    seen_total_ns=10 * SECOND,
    kernel_duration_ns=10 * SECOND,
)


def test_same_figures_are_no_difference() -> None:
    assert SAME.notes() == []
    assert (SAME.kernel_share, SAME.seen_share) == (0.4, 0.4)


@pytest.mark.parametrize("system_s", [1.2, 8.0, 0.0])
def test_other_split_is_a_note_with_both_shares(system_s: float) -> None:
    (note,) = replace(SAME, seen_system_ns=int(system_s * SECOND)).notes()
    assert f"saw {system_s / 10:.0%} of the CPU time in system calls, the kernel 40%" in note


def test_time_with_signals_blocked_is_named_where_it_explains_the_difference() -> None:
    more = replace(SAME, seen_system_ns=6 * SECOND, seen_unblocking_ns=2 * SECOND)
    (note,) = more.notes()
    assert "20% of the CPU time passed while the program blocked the sampling signal" in note
    (note,) = replace(more, seen_unblocking_ns=SECOND // 10).notes()
    assert "flametap saw 60%" in note
    (note,) = replace(more, seen_system_ns=2 * SECOND).notes()
    assert "flametap saw 20%" in note


def test_chance_explains_more_with_fewer_samples() -> None:
    off = replace(SAME, seen_system_ns=int(2.7 * SECOND))
    assert off.allowed() < 0.13
    assert len(off.notes()) == 1
    assert replace(off, samples=100).notes() == []


def test_little_cpu_time_says_nothing() -> None:
    short = replace(
        SAME, kernel_user_ns=SECOND // 2, kernel_system_ns=0, seen_system_ns=10 * SECOND
    )
    assert short.notes() == []
    assert replace(SAME, kernel_total_ns=SECOND // 2, seen_total_ns=0).notes() == []


def test_page_faults_explain_system_time_that_we_do_not_see_but_not_the_other_way() -> None:
    fewer = replace(SAME, seen_system_ns=2 * SECOND)
    assert len(fewer.notes()) == 1
    assert replace(fewer, page_faults=1_000_000).notes() == []
    assert len(replace(SAME, seen_system_ns=6 * SECOND, page_faults=1_000_000).notes()) == 1


def test_slow_page_faults_are_named() -> None:
    """In a virtual machine one may take 7 us."""
    (note,) = replace(SAME, seen_system_ns=2 * SECOND, page_faults=300_000).notes()
    assert "the kernel counts 40%" in note
    assert "300,000 page faults" in note


def test_time_without_a_stack_may_have_been_in_system_calls() -> None:
    fewer = replace(SAME, seen_ns=6 * SECOND, seen_system_ns=0)
    assert len(fewer.notes()) == 1
    assert replace(fewer, without_stack_ns=4 * SECOND).notes() == []


def test_all_of_one_kind_is_no_certainty() -> None:
    assert replace(SAME, kernel_system_ns=SECOND // 4, seen_system_ns=0).notes() == []


@pytest.mark.parametrize(("seen_s", "what"), [(8.0, "missing"), (12.0, "counted twice")])
def test_sum_that_differs_is_a_note(seen_s: float, what: str) -> None:
    (note,) = replace(SAME, seen_total_ns=int(seen_s * SECOND)).notes()
    assert f"counted {seen_s:.2f} s of CPU time, the kernel 10.00 s: time is {what}" in note


def test_sum_may_differ_by_what_lies_at_the_edges() -> None:
    assert replace(SAME, seen_total_ns=int(9.7 * SECOND)).notes() == []


def test_sum_may_differ_by_what_one_side_ran_on_for() -> None:
    """The sampler of a busy machine hears of the end when the kernel was read long ago."""
    more = replace(SAME, duration_ns=12 * SECOND, seen_total_ns=12 * SECOND)
    assert more.notes() == []
    assert len(replace(more, kernel_duration_ns=12 * SECOND).notes()) == 1
    # One that mostly waits for a CPU may have had it all that time.
    starved = replace(SAME, kernel_total_ns=2 * SECOND, duration_ns=int(10.6 * SECOND))
    assert replace(starved, seen_total_ns=int(2.3 * SECOND)).notes() == []
    assert len(replace(starved, seen_total_ns=3 * SECOND).notes()) == 1


def test_nothing_recorded_is_no_difference() -> None:
    assert Comparison(*[0] * 13).notes() == []
