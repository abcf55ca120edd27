"""Why CPU time has no stack."""

from __future__ import annotations

from flametap.capture.unattributed import unattributed_notes

SECOND = 1_000_000_000


def test_reasons_are_told_heaviest_first_and_the_rest_was_not_sampled_in_time() -> None:
    counters = {"unattributed_ended_ns": 32_000_000, "unattributed_blocked_ns": 80_000_000}
    verdicts = {"COMPLETE": 870_000_000, "NO_STACK": 130_000_000}
    assert unattributed_notes(counters, verdicts, SECOND) == [
        "13.0% of the CPU time has no stack: 8.0% of threads that block our signal, "
        "3.2% of threads that had no sample before the end, 1.8% not sampled in time"
    ]


def test_small_share_is_no_note() -> None:
    assert unattributed_notes({}, {"COMPLETE": 996, "NO_STACK": 4}, 1000) == []
    assert unattributed_notes({}, {"COMPLETE": 995, "NO_STACK": 5}, 1000) != []
    assert unattributed_notes({}, {}, 0) == []


def test_process_that_nearly_always_sleeps_has_no_note() -> None:
    assert unattributed_notes({}, {"NO_STACK": 9_000_000}, SECOND) == []


def test_agent_may_have_counted_more_than_it_has_sent() -> None:
    counters = {"unattributed_stack_ns": 20_000_000}
    notes = unattributed_notes(counters, {"COMPLETE": 90_000_000, "NO_STACK": 10_000_000}, SECOND)
    assert notes == [
        "10.0% of the CPU time has no stack: 10.0% on stacks that may have no room for a signal"
    ]
