"""Two recordings side by side: what changed, and what is chance."""

from __future__ import annotations

import pytest

from flametap.analysis.difference import Difference, difference_of
from flametap.analysis.dispersion import Side
from flametap.model import Clock
from flametap.recording.recording import Recording
from flametap.tree.selection import Selection, Span
from made_programs import FUNCTIONS, SAMPLE_NS, SAMPLES, program


def compared(before: Recording, after: Recording) -> Difference:
    return difference_of(Side(before, Selection()), Side(after, Selection()))


def changed(found: Difference) -> list[str]:
    return [each.function.name for each in found.own if each.grade]


def test_two_runs_of_one_program_do_not_differ() -> None:
    named_pairs = sum(
        bool(changed(compared(program({}, seed), program({}, 1000 + seed)))) for seed in range(20)
    )
    assert named_pairs <= 2


def test_function_that_takes_longer_is_named_first() -> None:
    found = compared(program({}, 1), program({"match": 1.6}, 2))
    assert changed(found)[0] == "match"
    (match,) = (each for each in found.own if each.function.name == "match")
    assert match.grade == 2
    assert match.share == pytest.approx((0.2, 1.6 / 5.6), abs=0.03)
    assert match.points == pytest.approx(0.0857, abs=0.03)
    assert match.rate == pytest.approx(match.share, abs=0.01), "one thread that always runs"
    assert found.own[-1].grade == 0 or len(changed(found)) == len(found.own)


def test_bursts_are_taken_for_what_they_are() -> None:
    """A function that runs for two seconds at a time has far fewer samples than it seems."""
    pairs = [
        compared(program({}, seed, bursts=200), program({}, 500 + seed, bursts=200))
        for seed in range(20)
    ]
    assert sum(any(each.grade == 2 for each in found.own) for found in pairs) <= 4


def test_phases_of_the_work_hide_no_change() -> None:
    """Each function runs once, for a part of the time."""
    found = compared(program({}, 1, is_sorted=True), program({"match": 1.6}, 2, is_sorted=True))
    assert changed(found)[0] == "match"


def test_functions_of_another_build_are_the_same_by_name() -> None:
    found = compared(program({}, 1, folder="/build/1"), program({}, 2, folder="/build/2"))
    assert sorted(each.function.name for each in found.own) == sorted(FUNCTIONS)


def test_function_that_one_side_lacks() -> None:
    found = compared(program({"hash": 0.0}, 1), program({}, 2))
    assert found.own[0].function.name == "hash"
    assert found.own[0].share[0] == 0.0
    assert found.own[0].grade == 2
    back = compared(program({}, 2), program({"hash": 0.0}, 1))
    assert (back.own[0].function.name, back.own[0].grade) == ("hash", -2)


def test_ranges_and_clocks_are_those_of_the_selections() -> None:
    one = program({}, 1)
    half = Selection(span=Span(0, SAMPLES * SAMPLE_NS // 2))
    found = difference_of(Side(one, half), Side(one, Selection()))
    total = next(each for each in found.total if each.function.name == "main")
    assert total.share == (1.0, 1.0)
    assert Side(one, half).length_ns == SAMPLES * SAMPLE_NS // 2
    idle = difference_of(Side(one, Selection(Clock.OFF_CPU)), Side(one, Selection(Clock.OFF_CPU)))
    assert not any(each.grade for each in idle.own)


def test_same_recording_twice() -> None:
    one = program({}, 1)
    found = compared(one, one)
    assert not changed(found)
    assert all(each.points == 0 for each in (*found.own, *found.total))
