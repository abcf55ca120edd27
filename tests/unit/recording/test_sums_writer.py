"""Sums are made while a recording grows: of whatever comes, and within bounds."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest

import wire
from flametap.analysis.views import views_of
from flametap.capture.keeper import Keeper, RollingKeeper
from flametap.model import Clock
from flametap.recording import opened, sums_writer, writer
from flametap.recording.chunks import Chunk, ChunkSizeError, encode
from flametap.recording.names.table import SymbolTable
from flametap.recording.opened import STORED_BYTES, open_recording
from flametap.recording.profile.store import Profile
from flametap.recording.recording import Recording
from flametap.recording.writer import RecordingWriter
from flametap.timeline.lanes import LaneQuery
from profiles import EPOLL_WAIT, apply
from recording_pieces import pieces_of
from recordings import recorded
from wire import PARKED, RUNNING

START_NS, MS, SECOND = 10**12, 10**6, 10**9
NODE_ROWS = 40
Rows = list[tuple[int, int, int]]  # thread, start in milliseconds, how long


class Growing:
    """A recording, and what is written of it."""

    def __init__(self) -> None:
        self.profile = Profile()
        self.profile.keep_new()
        self.recording: Recording = recorded(self.profile, SymbolTable(self.profile.locate))
        threads = [wire.thread(at, at, f"t{at}") for at in range(1, 9)]
        traces = [wire.trace(at, [wire.frame(1, 0x100 * at)]) for at in range(1, 4)]
        modules = [wire.module(1, "/opt/prog")]
        apply(self.profile, START_NS, threads=threads, traces=traces, modules=modules)

    def add(self, now_ms: int, rows: Rows, opens: Rows = ()) -> None:  # type: ignore[assignment]
        """Add intervals; odd threads run, the others sleep."""
        intervals: list[Any] = [
            wire.interval(
                thread,
                thread % 3 + 1,
                START_NS + start * MS,
                wall * MS,
                wall * MS // 2 if thread % 2 else 0,
                RUNNING if thread % 2 else PARKED,
                sysno=-1 if thread % 2 else EPOLL_WAIT,
                is_open=is_open,
            )
            for some, is_open in ((rows, False), (opens, True))
            for thread, start, wall in some
        ]
        apply(self.profile, START_NS + now_ms * MS, intervals=intervals)


class Written(Growing):
    """One that is written to a file in memory."""

    def __init__(self) -> None:
        super().__init__()
        self.file = io.BytesIO()
        self.writer = RecordingWriter(self.file, self.recording)

    def step(self, now_ms: int, rows: Rows, opens: Rows = ()) -> None:  # type: ignore[assignment]
        self.add(now_ms, rows, opens)
        self.writer.step()

    def nodes(self) -> list[dict[str, Any]]:
        pieces = pieces_of(self.file.getvalue())
        return [each.facts for each in pieces if each.kind == b"SUMS" and not each.facts["level"]]


@pytest.fixture(autouse=True)
def small_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nodes of few intervals."""
    monkeypatch.setattr(sums_writer, "NODE_ROWS", NODE_ROWS)
    monkeypatch.setattr(sums_writer, "ROWS_A_SINGLE", 0)


def check_same(path: Path, monkeypatch: pytest.MonkeyPatch, *, is_lazy: bool = True) -> None:
    """Check that a file reads from where it is as it does from memory."""
    monkeypatch.setattr(opened, "STORED_BYTES", STORED_BYTES)
    whole = open_recording(str(path))
    monkeypatch.setattr(opened, "STORED_BYTES", 0)
    stored = open_recording(str(path))
    assert (stored.profile.moments().intervals.stored is not None) == is_lazy
    profiles = [each.profile for each in (whole, stored)]
    start_ns, end_ns = profiles[0].start_ns, profiles[0].now_ns
    assert start_ns == profiles[1].start_ns
    assert whole.status().notes == stored.status().notes
    between = [
        (start_ns + (end_ns - start_ns) * first // 12, start_ns + (end_ns - start_ns) * last // 12)
        for first, last in ((0, 12), (0, 1), (3, 4), (5, 9), (11, 12))
    ]
    for each in between:
        infos = [profile.thread_infos(each) for profile in profiles]
        assert infos[0] == infos[1]
        for thread_id in profiles[0].threads:
            sums = [
                sum(int(leaves.weight.sum()) for leaves in profile.timelines(Clock.WALL, *each)(at))
                for profile in profiles
                for at in (thread_id,)
            ]
            assert sums[0] == pytest.approx(sums[1], abs=2_000)
    lanes = [views_of(each).lanes(LaneQuery(n_bins=30, with_idle=True)) for each in (whole, stored)]
    assert lanes[0].all.sums_ns == pytest.approx(lanes[1].all.sums_ns, rel=1e-3, abs=MS)


def finish(made: Written, path: Path) -> Path:
    made.writer.finish()
    path.write_bytes(made.file.getvalue())
    return path


def test_start_that_becomes_known_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = Written()
    for at in range(1_000, 3_000, 20):
        made.step(at + 20, [(1, at, 5), (3, at + 5, 5), (2, at + 5, 10)])
        if at == 2_000:
            made.step(at + 20, [(5, 200, 50), (4, 250, 700)])
    assert made.nodes()[0]["start_ns"] == START_NS + 1_000 * MS
    check_same(finish(made, tmp_path / "a.flametap"), monkeypatch)


def test_intervals_that_end_after_what_is_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = Written()
    for at in range(0, 2_000, 20):
        made.step(at + 18, [(1, at, 5), (3, at + 5, 15), (2, at + 5, 15)])
    path = finish(made, tmp_path / "a.flametap")
    assert all(each["end_ns"] % (20 * MS) == 0 for each in made.nodes())
    check_same(path, monkeypatch)


def test_intervals_out_of_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = Written()
    for at in range(0, 3_000, 20):
        late = at - 900 if at % 300 == 0 and at > 1_000 else at
        made.step(at + 20, [(1, late, 5), (3, at + 5, 5), (2, at + 5, 10), (5, late + 6, 1)])
    check_same(finish(made, tmp_path / "a.flametap"), monkeypatch)


def test_pause_is_in_one_window(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = Written()
    for at in (*range(0, 500, 20), *range(90_000, 90_500, 20)):
        made.step(at + 20, [(1, at, 5), (3, at + 5, 5), (2, at + 5, 10)])
    check_same(finish(made, tmp_path / "a.flametap"), monkeypatch)


def test_time_in_which_nothing_ends_is_of_no_node(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To read a node would be to read all of it."""
    made = Written()
    made.step(20, [(1, 0, 5)], [(2, 0, 10)])
    for at in range(20, 20_000, 100):
        made.step(at, [])
    idle = len(made.file.getvalue())
    for at in range(20_000, 21_000, 20):
        made.step(at + 20, [(1, at, 5), (3, at + 5, 5)])
    assert idle > 20_000
    assert all(each["bytes"] < idle for each in made.nodes()[1:])
    check_same(finish(made, tmp_path / "a.flametap"), monkeypatch)


def test_node_is_made_where_next_to_nothing_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sums_writer, "NODE_BYTES", 4_000)
    made = Written()
    made.step(20, [(1, 0, 5)], [(2, 0, 10)])
    for at in range(100, 10_000, 100):
        made.step(at, [(1, at - 90, 5)] if at % 500 == 0 else [])
    sizes = [each["bytes"] for each in made.nodes()]
    assert len(sizes) > 3
    assert max(sizes) < 5_000
    check_same(finish(made, tmp_path / "a.flametap"), monkeypatch)


@pytest.mark.parametrize(("rows_a_single", "n_nodes"), [(0, 10), (8, 2)])
def test_nodes_are_larger_where_many_intervals_begin_before_them(
    rows_a_single: int, n_nodes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sums_writer, "ROWS_A_SINGLE", rows_a_single)
    made = Written()
    for at in range(1_000, 3_000, 20):
        made.step(at + 20, [(thread, at + 20 - 200, 200) for thread in (2, 4, 6, 8)])
    assert len(made.nodes()) == pytest.approx(n_nodes, abs=1)


@pytest.mark.parametrize(
    ("limit", "value"),
    [("MAX_SINGLES", 3), ("MAX_NODES", 2), ("MAX_NODE_ROWS", NODE_ROWS - 2), ("MAX_SUMS", 9)],
)
def test_sums_end_before_their_lists_grow_without_bound(
    limit: str, value: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sums_writer, limit, value)
    made = Written()
    for at in range(0, 3_000, 20):
        made.step(at + 20, [(1, at, 5), (3, at + 5, 5), (2, at - 10, 30)])
    path = finish(made, tmp_path / "a.flametap")
    assert len(made.nodes()) <= 5
    assert pieces_of(path.read_bytes())[-1].kind == b"STAT"
    check_same(path, monkeypatch, is_lazy=bool(made.nodes()))


@pytest.mark.parametrize("level", [0, 1])
def test_sums_that_fit_into_no_chunk_end_only_the_sums(
    level: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def limited(chunk: Chunk) -> bytes:
        if chunk.kind == "SUMS" and chunk.facts["level"] == level:
            raise ChunkSizeError("too large")
        return encode(chunk)

    monkeypatch.setattr(writer, "encode", limited)
    made = Written()
    for at in range(0, 3_000, 20):
        made.step(at + 20, [(1, at, 5), (3, at + 5, 5), (2, at + 5, 10)])
    path = finish(made, tmp_path / "a.flametap")
    check_same(path, monkeypatch, is_lazy=level > 0)


def test_list_of_places_does_not_grow_with_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "STATUS_EVERY_S", 0)
    made = Written()
    for at in range(0, 3_000, 20):
        made.step(at + 20, [(1, at, 5)])
    assert len(made.writer._places) == 2


def grown(keeper: Keeper, made: Growing) -> None:
    for at in range(0, 2_000, 20):
        made.add(at + 20, [(1, at, 5), (3, at + 5, 5), (2, at + 5, 10)], [(4, 0, at + 20)])
        keeper.step()


def test_copy_of_a_growing_file_reads_as_from_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has sums, and no index."""
    made, path = Growing(), tmp_path / "a.flametap"
    with path.open("wb") as file:
        keeper = Keeper(file, str(path), made.recording)
        grown(keeper, made)
        with (tmp_path / "copy.flametap").open("wb") as copy:
            keeper.copy_to(copy)
        keeper.finish()
    kinds = [each.kind for each in pieces_of((tmp_path / "copy.flametap").read_bytes())]
    assert b"SUMS" in kinds
    assert b"LAST" not in kinds
    check_same(tmp_path / "copy.flametap", monkeypatch)
    check_same(path, monkeypatch)


def test_last_part_that_is_kept_reads_as_from_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has no sums, however long it is."""
    made = Growing()
    (tmp_path / "parts").mkdir()
    keeper = RollingKeeper(str(tmp_path / "parts"), 1.0, made.recording)
    grown(keeper, made)
    with (tmp_path / "copy.flametap").open("wb") as copy:
        keeper.copy_to(copy)
    keeper.close()
    check_same(tmp_path / "copy.flametap", monkeypatch, is_lazy=False)


def test_file_that_another_program_appended_to_is_read_without_its_index(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = Written()
    for at in range(0, 1_000, 20):
        made.step(at + 20, [(1, at, 5), (3, at + 5, 5), (2, at + 5, 10)])
    path = finish(made, tmp_path / "a.flametap")
    path.write_bytes(path.read_bytes() + b"LAST words\n")
    check_same(path, monkeypatch)
