"""What is less often asked of a long recording is also the same as from memory."""

from __future__ import annotations

import io
import json
import random
import re
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from flametap.analysis.views import views_of
from flametap.export import FORMATS
from flametap.export.request import ExportRequest
from flametap.model import Clock, Split
from flametap.recording import opened
from flametap.recording.opened import open_recording
from flametap.recording.profile.lock_intervals import MIN_STEP_NS
from flametap.recording.profile.store import Profile
from flametap.recording.recording import Recording
from flametap.timeline.heat import HeatQuery
from flametap.timeline.lanes import LaneQuery
from flametap.tree.selection import Selection, Span
from long_recordings import N_THREADS, made_up, with_sums
from recording_files import KEPT

Pair = tuple[Recording, Recording]
PARTS = (0.0, 1.0), (0.2, 0.7), (0.45, 0.5), (0.9, 1.0)  # of the duration


def both(path: Path, monkeypatch: pytest.MonkeyPatch) -> Pair:
    """The recording in memory, and from its file."""
    whole = open_recording(str(path))
    monkeypatch.setattr(opened, "STORED_BYTES", 0)
    stored = open_recording(str(path))
    assert stored.profile.moments().intervals.stored is not None
    return whole, stored


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Pair:
    """A recording that was made up."""
    path = tmp_path / "made.flametap"
    path.write_bytes(made_up(11))
    return both(path, monkeypatch)


@pytest.fixture
def python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Pair:
    """A recording of a Python program, whose threads hold and await the GIL."""
    path = tmp_path / "python.flametap"
    path.write_bytes(with_sums((KEPT / "python.flametap").read_bytes(), 9))
    return both(path, monkeypatch)


def spans(recording: Recording) -> list[Span]:
    duration_ns = recording.profile.duration_ns
    return [Span(int(duration_ns * start), int(duration_ns * end)) for start, end in PARTS]


def times(profile: Profile) -> list[tuple[int, int]]:
    duration_ns, first_ns = profile.duration_ns, profile.start_ns
    return [
        (first_ns + int(duration_ns * start), first_ns + int(duration_ns * end))
        for start, end in PARTS
    ]


@pytest.mark.parametrize("pair", ["made", "python"])
def test_threads_between_two_times_are_the_same(pair: str, request: pytest.FixtureRequest) -> None:
    whole, stored = (each.profile for each in request.getfixturevalue(pair))
    for between_ns in times(whole):
        assert whole.thread_infos(between_ns) == stored.thread_infos(between_ns)


@pytest.mark.parametrize("pair", ["made", "python"])
def test_waits_for_locks_in_a_part_are_the_same(pair: str, request: pytest.FixtureRequest) -> None:
    recordings = request.getfixturevalue(pair)
    for span in (None, *spans(recordings[0])):
        found = [
            views_of(each).lock_waits(Selection(Clock.WALL, span=span), None) for each in recordings
        ]
        texts = [re.sub(r"\d+", "0", repr(each)) for each in found]
        assert texts[0] == texts[1]
        numbers = [[int(each) for each in re.findall(r"\d+", repr(waits))] for waits in found]
        assert numbers[0] == pytest.approx(numbers[1], abs=MIN_STEP_NS)


def test_time_in_which_others_await_the_gil_is_the_same(python: Pair) -> None:
    for between_ns in ((None, None), *times(python[0].profile)):
        found = []
        for recording in python:
            locks = recording.profile.lock_intervals(*between_ns)
            found.append(locks.held_meanwhile(locks.awaited))
        assert found[0][0] == found[1][0]
        assert found[0][1] == pytest.approx(found[1][1], abs=MIN_STEP_NS)
    assert found[0][0] >= 0


def test_gil_is_shown_as_it_was(python: Pair) -> None:
    assert python[0].profile.lock_times(Clock.WALL)
    for read in (Profile.lock_times, Profile.total_ns):
        whole, stored = (read(each.profile, Clock.WALL) for each in python)
        assert whole == stored
    lanes = [views_of(each).lanes(LaneQuery(n_bins=50)) for each in python]
    held = [each.gil.sums_ns if each.gil is not None else [] for each in lanes]
    assert held[0] == pytest.approx(held[1], rel=0.02)
    assert held[0]


@pytest.mark.parametrize("thread_ids", [None, frozenset({1}), frozenset({2, 4, 5})])
@pytest.mark.parametrize("kind", ["cpu", "waits"])
def test_heat_maps_of_some_threads_are_the_same(
    made: Pair, kind: str, thread_ids: frozenset[int] | None
) -> None:
    duration_ns = made[0].profile.duration_ns
    for start, end in PARTS:
        query = HeatQuery(kind, int(duration_ns * start), int(duration_ns * end), 60, thread_ids)
        whole, stored = (views_of(each).heat(query) for each in made)
        assert whole.planes.keys() == stored.planes.keys()
        assert (whole.start_ns, whole.step_ns) == (stored.start_ns, stored.step_ns)
        if kind == "waits":
            assert whole == stored
            continue
        assert whole.most == pytest.approx(stored.most, rel=0.2)
        for activity, plane in whole.planes.items():
            sums = [
                float((np.frombuffer(one, np.uint8).astype(float) ** 2).sum() * most)
                for one, most in ((plane, whole.most), (stored.planes[activity], stored.most))
            ]
            assert sums[0] == pytest.approx(sums[1], rel=0.1)


@pytest.mark.parametrize("thread_id", range(1, N_THREADS + 1))
def test_lane_of_each_thread_is_the_same(made: Pair, thread_id: int) -> None:
    for span in spans(made[0]):
        query = LaneQuery(
            span.start_ns, span.end_ns, 80, thread_ids=frozenset({thread_id}), overview_bins=40
        )
        found = [views_of(each).lanes(query) for each in made]
        assert len(found[0].lanes) == len(found[1].lanes)
        for lane in ("all", "overview"):
            whole, stored = (getattr(each, lane) for each in found)
            # Bins of the file are spread over the bins at the edges of what is shown.
            assert whole.sums_ns == pytest.approx(stored.sums_ns, rel=0.05, abs=2 * 10**8)


def test_overview_of_all_threads_is_the_same(made: Pair) -> None:
    query = LaneQuery(overview_bins=60)
    found = [views_of(each).lanes(query).overview for each in made]
    assert found[0] is not None
    assert found[1] is not None
    assert found[0].sums_ns == pytest.approx(found[1].sums_ns, rel=1e-6)
    assert found[0].scale_ns == pytest.approx(found[1].scale_ns, rel=0.05)


@pytest.mark.parametrize("name", ["folded", "speedscope", "firefox"])
@pytest.mark.parametrize("split", [Split.NONE, Split.THREAD])
def test_exports_of_a_part_are_the_same(python: Pair, name: str, split: Split) -> None:
    for span in (None, *spans(python[0])):
        written = []
        for recording in python:
            file = io.BytesIO()
            selection = Selection(Clock.WALL, span=span, split=split)
            FORMATS[name].write(ExportRequest(recording, selection), file)
            written.append(file.getvalue())
        if name == "folded":
            assert sorted(written[0].splitlines()) == sorted(written[1].splitlines())
            continue
        totals = [_total(json.loads(each)) for each in written]
        assert totals[0] == pytest.approx(totals[1], rel=1e-6)


def _total(written: dict[str, list[dict[str, object]]]) -> list[float]:
    found = []
    for each in written.get("profiles", []):
        weights = each.get("weights")
        if isinstance(weights, list):
            found.append(float(sum(weights)))
    return sorted(found)


def test_intervals_of_a_node_are_as_those_of_a_chunk(made: Pair) -> None:
    """By thread, then by time: what compares threads relies on it."""
    profile = made[1].profile
    for chunk in profile.lock_intervals().chunks:
        block = chunk.read()
        thread_id = profile.lock_intervals().thread_id[block.cell]
        order = np.lexsort((block.t0_ns, thread_id))
        assert (order == np.arange(len(order))).all()


def test_requests_at_once_are_answered_as_one_after_another(made: Pair) -> None:
    """Readers of one node share what was read of it."""
    whole, stored = (each.profile for each in made)
    expected = {at: _listed(whole, at) for at in range(1, N_THREADS + 1)}
    nodes = stored.moments().intervals.stored
    assert nodes is not None
    for attempt in range(20):
        nodes._rows._values.clear()
        order = random.Random(attempt).sample(range(1, N_THREADS + 1), N_THREADS)
        with ThreadPoolExecutor(N_THREADS) as pool:
            found = dict(zip(order, pool.map(partial(_listed, stored), order), strict=True))
        assert found == expected


def _listed(profile: Profile, thread_id: int) -> list[tuple[int, int]]:
    """The weights of a thread by leaf."""
    sums: dict[int, int] = {}
    for leaves in profile.timelines(Clock.WALL)(thread_id):
        for node, weight in zip(leaves.node.tolist(), leaves.weight.tolist(), strict=True):
            sums[node] = sums.get(node, 0) + weight
    return sorted(sums.items())
