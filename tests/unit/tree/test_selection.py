"""The range of time of a selection, and what it leaves of a recording."""

from __future__ import annotations

import pytest

from flametap.analysis.views import Views
from flametap.code.node_weights import node_weights
from flametap.locks.lock_waits import lock_waits
from flametap.model import Clock
from flametap.tree.calltree import build
from flametap.tree.selection import Selection, Span
from gil_profiles import gil_profile
from recordings import recorded

S = 10**9
ALL_CLOCKS = pytest.mark.parametrize("clock", list(Clock))


@pytest.mark.parametrize(
    ("span", "expected"),
    [
        (Span(2 * S, 5 * S), (102 * S, 105 * S)),
        (Span(2 * S), (102 * S, 110 * S)),
        (Span(-3 * S), (107 * S, 110 * S)),
        (Span(-30 * S), (100 * S, 110 * S)),
        (Span(2 * S, 50 * S), (102 * S, 150 * S)),
    ],
)
def test_a_span_is_placed_in_the_recording(span: Span, expected: tuple[int, int]) -> None:
    assert span.between(100 * S, 110 * S) == expected
    assert Selection(span=span).between(100 * S, 110 * S) == expected


def test_without_a_span_the_whole_recording_counts() -> None:
    assert Selection().between(100 * S, 110 * S) == (None, None)


@ALL_CLOCKS
def test_two_halves_have_the_whole_weight_in_each_view(clock: Clock) -> None:
    profile, table = gil_profile()
    half, end = profile.duration_ns // 2, profile.duration_ns
    spans = [Span(0, half), Span(half, end)]
    views = Views(recorded(profile, table))
    whole = build(profile, table, clock).total_ns[0]
    trees = [views.tree(Selection(clock, span=span)).total_ns[0] for span in spans]
    weights = [node_weights(profile, table, Selection(clock, span=span)).sum_ns for span in spans]
    assert sum(trees) == pytest.approx(whole, abs=len(trees))
    assert trees == weights
    assert all(0 < each < whole for each in trees)


def test_two_halves_have_all_waits_for_the_lock() -> None:
    profile, table = gil_profile()
    half, end = profile.duration_ns // 2, profile.duration_ns
    found = [
        lock_waits(profile, table, Selection(span=span)).total_ns
        for span in (Span(0, half), Span(half, end))
    ]
    assert sum(found) == lock_waits(profile, table).total_ns
    assert all(found)
