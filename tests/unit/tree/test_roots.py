"""Views that show programs, processes or threads apart."""

from __future__ import annotations

import pytest

from flametap.analysis.views import views_of
from flametap.model import Split
from flametap.recording.recording import Recording
from flametap.timeline.lanes import FULL, Lane, LaneQuery
from flametap.tree.selection import Selection
from several import FIRST_MS, MS, SECOND_MS, build_tree


@pytest.fixture
def recording() -> Recording:
    return build_tree()


def roots(recording: Recording, split: Split) -> dict[str, int]:
    """The outermost boxes, and the time of each in milliseconds."""
    tree = views_of(recording).tree(Selection(split=split))
    found = zip(tree.parent, tree.function, tree.total_ns, strict=True)
    return {tree.functions[at].name: int(ns) // MS for parent, at, ns in found if parent == 0}


def test_each_stack_begins_with_what_is_shown_apart(recording: Recording) -> None:
    both = FIRST_MS + SECOND_MS
    assert roots(recording, Split.PROGRAM) == {"make": both, "cc1": 2 * both}
    assert roots(recording, Split.PROCESS) == {"make 100": both, "cc1 101": both, "cc1 102": both}
    assert roots(recording, Split.THREAD) == {
        "make 100 (100)": FIRST_MS,
        "make 100: pool (300)": SECOND_MS,
        "cc1 101 (101)": FIRST_MS,
        "cc1 101: pool (301)": SECOND_MS,
        "cc1 102 (102)": FIRST_MS,
        "cc1 102: pool (302)": SECOND_MS,
    }
    merged = roots(recording, Split.NONE)
    assert sum(merged.values()) == 3 * both
    assert not merged.keys() & {"make", "cc1"}


def lanes(recording: Recording, query: LaneQuery) -> list[Lane]:
    return views_of(recording).lanes(query).lanes


def named(found: list[Lane]) -> dict[str, int]:
    """The CPU time of each lane, in milliseconds."""
    assert all(each.thread is not None for each in found)
    return {each.thread.name: each.sums_ns[0] // MS for each in found if each.thread}


def test_processes_and_programs_have_lanes(recording: Recording) -> None:
    both = FIRST_MS + SECOND_MS
    programs = lanes(recording, LaneQuery(split=Split.PROGRAM))
    assert named(programs) == {"cc1": 2 * both, "make": both}
    assert [(each.n_processes, len(each.thread_ids)) for each in programs] == [(2, 4), (1, 2)]
    processes = lanes(recording, LaneQuery(split=Split.PROCESS))
    assert named(processes) == {"make 100": both, "cc1 101": both, "cc1 102": both}
    assert len(lanes(recording, LaneQuery(split=Split.THREAD, n_lanes=8))) == 6
    # A range of newer bins is asked for by the first threads.
    leads = [each.thread.thread_id for each in programs if each.thread]
    again = lanes(recording, LaneQuery(split=Split.PROGRAM, only=tuple(reversed(leads))))
    assert [*named(again)] == ["make", "cc1"]


def test_lane_of_a_program_is_full_where_most_of_its_threads_are(recording: Recording) -> None:
    found = views_of(recording).lanes(LaneQuery(split=Split.PROGRAM))
    cc1 = found.lanes[0]
    assert cc1.scale_ns == pytest.approx(2 * found.bins.step_ns)  # not of all four threads
    assert max(max(plane) for plane in cc1.planes.values()) == FULL


def test_chosen_threads_only(recording: Recording) -> None:
    chosen = frozenset(
        each.thread_id for each in recording.profile.threads.values() if each.process == 1
    )
    query = LaneQuery(split=Split.PROGRAM, thread_ids=chosen)
    assert named(lanes(recording, query)) == {"cc1": FIRST_MS + SECOND_MS}
