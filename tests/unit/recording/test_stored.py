"""A long recording is read from its file as it would be from memory."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

from flametap.analysis.views import views_of
from flametap.errors import InputError
from flametap.model import Activity, Clock
from flametap.recording import opened
from flametap.recording.opened import open_recording
from flametap.recording.profile.store import Profile
from flametap.recording.recording import Recording
from flametap.timeline.heat import HeatQuery
from flametap.timeline.lanes import LaneQuery
from flametap.timeline.time_sums import TimeSums
from long_recordings import HIDDEN, N_ROWS, N_THREADS, made_up

RESOLUTION_NS = 2_000  # of starts in memory


def make(path: Path, seed: int, *, is_whole: bool = True) -> Path:
    """Write a recording of random intervals, some of them waits for locks."""
    path.write_bytes(made_up(seed, is_whole=is_whole))
    return path


def both(path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Recording, Recording]:
    """The recording in memory, and from its file."""
    whole = open_recording(str(path))
    monkeypatch.setattr(opened, "STORED_BYTES", 0)
    stored = open_recording(str(path))
    assert whole.profile.moments().intervals.stored is None
    assert stored.profile.moments().intervals.stored is not None
    return whole, stored


@pytest.fixture(params=["index", "cut off"])
def pair(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[Recording, Recording]:
    path = make(tmp_path / "a.flametap", 7, is_whole=request.param == "index")
    return both(path, monkeypatch)


def ranges(profile: Profile) -> list[tuple[int | None, int | None]]:
    rng = random.Random(1)
    found: list[tuple[int | None, int | None]] = [(None, None), (profile.start_ns, None)]
    for _ in range(40):
        ends = sorted(rng.randint(profile.start_ns, profile.now_ns + 1) for _ in range(2))
        found.append((ends[0], ends[1]))
    return found


def test_weights_of_every_range_are_the_same(pair: tuple[Recording, Recording]) -> None:
    whole, stored = (each.profile for each in pair)
    assert whole.now_ns == stored.now_ns
    for clock in Clock:
        samples = [each.leaf_samples(clock) for each in (whole, stored)]
        assert by_leaf(samples[0]) == by_leaf(samples[1])
        for start_ns, end_ns in ranges(whole):
            found = [each.leaf_weights(clock, None, start_ns, end_ns) for each in (whole, stored)]
            assert by_leaf(found[0]) == by_leaf(found[1])


def by_leaf(leaves: object) -> dict[tuple[int, ...], int]:
    columns = (getattr(leaves, name).tolist() for name in ("thread_id", "node", "sysno", "weight"))
    return {tuple(row[:3]): row[3] for row in zip(*columns, strict=True)}


def test_threads_and_verdicts_are_the_same(pair: tuple[Recording, Recording]) -> None:
    whole, stored = (each.profile for each in pair)
    assert whole.thread_infos() == stored.thread_infos()
    assert whole.verdicts() == stored.verdicts()
    assert HIDDEN not in {each.thread_id for each in stored.thread_infos()}
    assert pair[0].status().notes == pair[1].status().notes


def test_each_threads_time_is_listed_in_order(pair: tuple[Recording, Recording]) -> None:
    whole, stored = (each.profile for each in pair)
    for thread_id in range(1, N_THREADS + 1):
        for start_ns, end_ns in ranges(whole)[::8]:
            starts, weights = [], []
            for profile in (whole, stored):
                listed = list(profile.timelines(Clock.WALL, start_ns, end_ns).timed(thread_id))
                starts.append(np.concatenate([np.empty(0), *(each.begin_ns for each in listed)]))
                weights.append([int(each.leaves.weight.sum()) for each in listed])
            assert starts[0] == pytest.approx(starts[1], abs=RESOLUTION_NS)
            assert sum(weights[0]) == pytest.approx(sum(weights[1]), abs=RESOLUTION_NS)


def test_waits_for_locks_are_the_same(pair: tuple[Recording, Recording]) -> None:
    found = []
    for recording in pair:
        chunks = recording.profile.lock_intervals().chunks
        rows = []
        for name in ("awaited_lock", "held_lock", "holder_id"):
            for chunk in chunks:
                block, values = chunk.with_lock(name)
                columns = block.wall_ns, block.cpu_ns, values
                rows += [(name, *row) for row in zip(*map(np.ndarray.tolist, columns), strict=True)]
        found.append(sorted(rows))
    assert found[0] == found[1]
    assert len(found[0]) > N_ROWS / 4


@pytest.mark.parametrize("part", [1.0, 0.3, 0.01])
def test_timeline_is_that_of_the_intervals_but_for_rounding(
    pair: tuple[Recording, Recording], part: float
) -> None:
    duration_ns = pair[0].profile.duration_ns
    end_ns = int(duration_ns * part)
    found = [views_of(each).lanes(LaneQuery(end_ns=end_ns, n_bins=100)) for each in pair]
    assert [each.thread for each in found[0].lanes] == [each.thread for each in found[1].lanes]
    for one, other in zip(found[0].lanes, found[1].lanes, strict=True):
        assert set(one.planes) == set(other.planes)
        for activity, plane in one.planes.items():
            values = (
                np.frombuffer(p, np.uint8).astype(int) for p in (plane, other.planes[activity])
            )
            assert np.abs(np.subtract(*values)).max() <= 2


def test_heat_maps_are_the_same(pair: tuple[Recording, Recording]) -> None:
    found = [views_of(each).heat(HeatQuery(kind="waits", n_columns=50)) for each in pair]
    assert found[0] == found[1]
    assert found[0].planes.keys() >= {Activity.LOCK, Activity.IO}


def test_bins_are_read_from_few_nodes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, stored = both(make(tmp_path / "a.flametap", 7), monkeypatch)
    nodes = stored.profile.moments().intervals.stored
    assert nodes is not None
    assert len(nodes.chunks) > 20
    fine, coarse = nodes.for_bins(20, 0, 1 << 62)
    assert not coarse
    assert len(fine) < 10
    assert isinstance(TimeSums(stored.profile.moments).look().origin_ns, int)


def test_file_that_is_damaged_later_is_said_to_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = make(tmp_path / "a.flametap", 7)
    _, stored = both(path, monkeypatch)
    path.write_bytes(path.read_bytes()[:2000])
    profile = stored.profile
    with pytest.raises(InputError, match="at byte"):
        profile.leaf_weights(Clock.CPU, None, (profile.start_ns + profile.now_ns) // 2)


def test_index_that_makes_no_sense_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = make(tmp_path / "a.flametap", 7)
    data = path.read_bytes()
    for at in range(len(data) - 330, len(data), 55):
        path.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
        whole, stored = both(path, monkeypatch)
        monkeypatch.setattr(opened, "STORED_BYTES", 1 << 30)
        weights = [by_leaf(each.profile.leaf_weights(Clock.WALL)) for each in (whole, stored)]
        assert weights[0] == weights[1]
