"""What a long recording's file may say of its sums: each test has the smallest change."""

from __future__ import annotations

import copy
import gc
import random
import threading
import weakref
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from flametap.errors import InputError, OutputError
from flametap.model import Clock
from flametap.recording import chunks, opened, reader
from flametap.recording.opened import open_recording
from flametap.recording.profile.interval_chunk import MAX_SUM_NS
from flametap.recording.recording import Recording
from long_recordings import STEP_ROWS, made_up
from recording_pieces import Piece, joined, made, pieces_of
from recording_places import relocated

Change = Callable[[dict[str, Any], dict[str, Any]], None]
N_ROWS = 900
WHOLE, CUT_OFF = made_up(3, n_rows=N_ROWS), made_up(3, n_rows=N_ROWS, is_whole=False)


@pytest.fixture(autouse=True)
def long_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """All files are long."""
    monkeypatch.setattr(opened, "STORED_BYTES", 0)


def open_bytes(path: Path, data: bytes) -> Recording:
    path.write_bytes(data)
    return open_recording(str(path))


def changed(kind: bytes, change: Change, *, which: int = 0, data: bytes = WHOLE) -> bytes:
    """The file, of which a chunk says something else; places are right."""
    found = list(pieces_of(data))
    at = [at for at, each in enumerate(found) if each.kind == kind][which]
    facts, columns = copy.deepcopy(found[at].facts), dict(found[at].columns)
    change(facts, columns)
    found[at] = made(replace(found[at], facts=facts, columns=columns))
    return joined(relocated(found))


def is_lazy(recording: Recording) -> bool:
    return recording.profile.moments().intervals.stored is not None


def read_parts(recording: Recording) -> None:
    """Ask for each tenth of the time, and for most of it. No weight is negative."""
    profile = recording.profile
    for clock in Clock:
        for part, length in (*((part, 1) for part in range(10)), (1, 8)):
            start_ns = profile.start_ns + profile.duration_ns * part // 10
            end_ns = start_ns + profile.duration_ns * length // 10
            leaves = profile.leaf_weights(clock, None, start_ns, end_ns)
            assert int(leaves.weight.min(initial=0)) >= 0


def read_all(recording: Recording) -> None:
    """Read all intervals. Raises InputError."""
    for chunk in recording.profile.lock_intervals().chunks:
        chunk.read()


def has_index(path: Path) -> bool:
    """Tell whether a file is opened by its index."""
    with path.open("rb") as file:
        return reader._load_index(file, str(path), ()) is not None


def set_fact(name: str, value: Any) -> Change:
    return lambda facts, _: facts.update({name: value})


def set_column(name: str, place: int | slice, value: int) -> Change:
    def change(_: dict[str, Any], columns: dict[str, Any]) -> None:
        column = columns[name].astype(np.int64)
        column[place] = value
        columns[name] = column

    return change


def add_places(*places: list[Any]) -> Change:
    return lambda facts, _: facts.update(places=[*places, *facts["places"]])


INDEXES: dict[str, Change] = {
    "a chunk is named twice": add_places(["META", 16]),
    "intervals are named": lambda facts, _: facts["places"].insert(1, ["GAIN", 900]),
    "a chunk is of another kind": lambda facts, _: facts["places"].insert(0, ["STAT", 16]),
    "a place is no number": add_places(["META", True, 3]),
    "a node is where the one before is": set_column("offset", 1, 0),
    "a node's intervals are those of all before": set_column("rows_at", 3, 16),
    "a node's intervals are behind it": set_column("rows_at", 0, 1 << 40),
    "bins are too fine": set_column("bins_level", -1, 0),
    "levels are others": set_column("level", slice(None), 0),
    "a level is of no tree": set_column("level", -1, 15),
    "the start is another": set_fact("origin_ns", 1 << 61),
}


@pytest.mark.parametrize("what", INDEXES)
def test_index_that_cannot_be_is_left_out(what: str, tmp_path: Path) -> None:
    path = tmp_path / "a.flametap"
    found = open_bytes(path, changed(b"node", INDEXES[what]))
    assert not has_index(path)
    expected = open_bytes(path, WHOLE).profile
    assert has_index(path)
    assert found.profile.total_ns(Clock.WALL) == expected.total_ns(Clock.WALL)


@pytest.mark.parametrize("kind", [b"node", b"GAIN", b"SUMS"])
def test_index_with_a_chunk_twice_or_of_another_kind_is_left_out(
    kind: bytes, tmp_path: Path
) -> None:
    found = list(pieces_of(WHOLE))
    more = [each for each in found if each.kind == kind][-1]
    path = tmp_path / "a.flametap"
    recording = open_bytes(path, joined(relocated([*found[:-1], more, found[-1]])))
    assert not has_index(path)
    assert is_lazy(recording)


def test_index_that_begins_at_the_start_is_not_kept_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would be all chunks of the file, unpacked."""
    path = tmp_path / "a.flametap"
    data = changed(b"LAST", set_fact("index", chunks.HEADER.size))
    read = 0
    unpack = chunks._unpack

    def counted(stored: bytes, n_packed: int) -> bytes:
        nonlocal read
        read += 1
        return unpack(stored, n_packed)

    path.write_bytes(data)
    monkeypatch.setattr(chunks, "_unpack", counted)
    with path.open("rb") as file:
        assert reader._load_index(file, str(path), ()) is None
    assert read <= 3


SUMS: dict[str, Change] = {
    "a sum is too large": set_column("cells.cpu_ns", slice(None), MAX_SUM_NS - 1),
    "a bin is far away": set_column("bins.bin", -1, (1 << 31) - 1),
    "a bin is before the window": set_column("bins.bin", 0, -5),
    "bins are there twice": lambda _, columns: columns.update(
        {name: np.repeat(each, 2) for name, each in columns.items() if name.startswith("bins.")}
    ),
    "waits are there twice": lambda _, columns: columns.update(
        {name: np.repeat(each, 2) for name, each in columns.items() if name.startswith("waits.")}
    ),
    "the window is another": set_fact("first_ns", 5),
    "the level is another": set_fact("level", 3),
    "its waits are elsewhere": set_fact("lock_bytes", 1),
}
# Without an index, nothing says that they are others.
HARMLESS = "the window is another", "its waits are elsewhere"


@pytest.mark.parametrize("what", SUMS)
def test_sums_that_cannot_be_are_refused(what: str, tmp_path: Path) -> None:
    path = tmp_path / "a.flametap"
    recording = open_bytes(path, changed(b"SUMS", SUMS[what]))
    assert has_index(path)
    stored = recording.profile.moments().intervals.stored
    assert stored is not None
    with pytest.raises(InputError, match="at byte"):
        stored.sums(stored._levels[0][0])
    stored.sums(stored._levels[0][1])


@pytest.mark.parametrize("what", SUMS)
def test_sums_at_the_top_that_cannot_be_end_the_recording(what: str, tmp_path: Path) -> None:
    path = tmp_path / "a.flametap"
    recording = open_bytes(path, changed(b"SUMS", SUMS[what], which=-1))
    assert not has_index(path)
    assert is_lazy(recording)
    notes = recording.status().notes
    assert what in HARMLESS or any("cannot be read beyond" in note for note in notes)
    if what not in HARMLESS:
        read_parts(recording)


@pytest.mark.parametrize("clock", list(Clock))
def test_sums_of_parts_fit_into_64_bits(clock: Clock, tmp_path: Path) -> None:
    """Those of nodes below others are read later."""
    name = f"cells.{clock.name.lower().removesuffix('_cpu')}_ns"
    found = [
        made(replace(each, columns={**each.columns, name: huge}))
        if each.kind == b"SUMS" and each.facts["level"] == 0
        else each
        for each in pieces_of(WHOLE)
        for n_cells in [len(each.columns.get("cells.cell", ()))]
        for huge in [np.full(n_cells, MAX_SUM_NS // (n_cells + 3))]
    ]
    try:
        read_parts(open_bytes(tmp_path / "a.flametap", joined(relocated(found))))
    except InputError:
        pass
    else:
        pytest.fail("more than 36 years")


def test_intervals_of_others_are_refused(tmp_path: Path) -> None:
    """Those between the places of an index are not the node's."""
    path = tmp_path / "a.flametap"
    nodes = next(each for each in pieces_of(WHOLE) if each.kind == b"node")
    wrong = int(nodes.columns["rows_at"][2]) + 1
    found = open_bytes(path, changed(b"node", set_column("rows_at", 2, wrong)))
    assert has_index(path)
    with pytest.raises(InputError, match="at byte"):
        read_all(found)


def test_intervals_that_are_missing_later_are_said_to_be(tmp_path: Path) -> None:
    """Not only those at the first damaged byte."""
    path = tmp_path / "a.flametap"
    found = open_bytes(path, WHOLE)
    chunk = found.profile.lock_intervals().chunks[3]
    gains = [each for each in pieces_of(WHOLE) if each.kind == b"GAIN" and each.offset]
    inside = [each.offset for each in gains if each.offset > chunk._node.rows_at]  # type: ignore[attr-defined]
    path.write_bytes(WHOLE[: inside[1] + 9])
    with pytest.raises(InputError, match="missing"):
        chunk.read()


def test_file_that_was_replaced_is_not_copied(tmp_path: Path) -> None:
    path = tmp_path / "a.flametap"
    found = open_bytes(path, WHOLE)
    other = tmp_path / "b.flametap"
    other.write_bytes(WHOLE)
    other.replace(path)
    assert found.copy_to is not None
    with (tmp_path / "copy").open("wb") as to, pytest.raises(OutputError, match="another file"):
        found.copy_to(to)


def test_file_that_was_replaced_is_read_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "a.flametap"
    found = open_bytes(path, WHOLE)
    other = tmp_path / "b.flametap"
    other.write_bytes(made_up(4, n_rows=N_ROWS))
    other.replace(path)
    read_parts(found)
    path.write_bytes(b"")
    read_parts(found)


def test_file_that_was_written_over_is_not_taken_for_it(tmp_path: Path) -> None:
    path = tmp_path / "a.flametap"
    found = open_bytes(path, WHOLE)
    path.write_bytes(made_up(4, n_rows=N_ROWS))
    with pytest.raises(InputError, match="at byte"):
        read_parts(found)


@pytest.mark.parametrize("data", [WHOLE, CUT_OFF])
def test_sums_without_those_above_are_as_far_as_it_reads(data: bytes, tmp_path: Path) -> None:
    """Else all of its nodes would be added up."""
    found = [
        each
        for each in pieces_of(data)
        if (each.kind != b"SUMS" or each.facts["level"] == 0) and each.kind != b"LAST"
    ]
    recording = open_bytes(tmp_path / "a.flametap", joined(relocated(found)))
    stored = recording.profile.moments().intervals.stored
    assert stored is not None
    assert len(stored.chunks) == 4
    assert any("sums are missing" in note for note in recording.status().notes)
    read_parts(recording)


def test_intervals_before_sums_that_make_no_sense_are_kept(tmp_path: Path) -> None:
    data = changed(b"SUMS", set_fact("bins_level", 33), data=CUT_OFF)
    recording = open_bytes(tmp_path / "a.flametap", data)
    assert "cannot be read" in " ".join(recording.status().notes)
    assert not is_lazy(recording)
    assert recording.profile.total_ns(Clock.WALL) > 0


def test_file_without_sums_needs_no_more_memory_for_being_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "MAX_NODE_ROWS", 100)
    most = 0
    keep = reader.Loading._keep_pending

    def kept(loading: Any) -> None:
        nonlocal most
        most = max(most, loading._n_pending)
        keep(loading)

    monkeypatch.setattr(reader.Loading, "_keep_pending", kept)
    found = [each for each in pieces_of(CUT_OFF) if each.kind != b"SUMS"]
    recording = open_bytes(tmp_path / "a.flametap", joined(found))
    expected = open_bytes(tmp_path / "b.flametap", CUT_OFF)
    assert recording.profile.total_ns(Clock.CPU) == expected.profile.total_ns(Clock.CPU)
    assert 0 < most < 100 + 12 * STEP_ROWS


def test_late_moment_is_in_the_file(tmp_path: Path) -> None:
    """The only interval of the last node may begin when its window ends."""

    def late(facts: dict[str, Any], _: dict[str, Any]) -> None:
        facts["first_ns"] = facts["end_ns"]

    data = changed(b"SUMS", late, which=0, data=CUT_OFF)
    assert "cannot be read" not in " ".join(
        open_bytes(tmp_path / "a.flametap", data).status().notes
    )


def test_recording_that_nobody_needs_is_gone_at_once(tmp_path: Path) -> None:
    """With its file, and with what was read of it."""
    gc.disable()
    try:
        recording = open_bytes(tmp_path / "a.flametap", WHOLE)
        read_parts(recording)
        gone = weakref.ref(recording.profile)
        del recording
        assert gone() is None
    finally:
        gc.enable()


def test_readers_at_once_do_not_disturb_each_other(tmp_path: Path) -> None:
    recording = open_bytes(tmp_path / "a.flametap", WHOLE)
    profile = recording.profile
    stored = profile.moments().intervals.stored
    assert stored is not None
    nodes = list(stored._levels[0])
    expected = [int(stored._reader.rows(node)["wall_ns"].sum()) for node in nodes]
    failed: list[object] = []

    def read(seed: int) -> None:
        for at in random.Random(seed).choices(range(len(nodes)), k=60):
            stored.sums(nodes[at])
            if int(stored._reader.rows(nodes[at])["wall_ns"].sum()) != expected[at]:
                failed.append(at)

    threads = [threading.Thread(target=read, args=(seed,)) for seed in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert not failed


def test_piece_that_moved_is_found(tmp_path: Path) -> None:
    """Else the tests above say nothing."""
    found: list[Piece] = list(pieces_of(WHOLE))
    path = tmp_path / "a.flametap"
    recording = open_bytes(path, joined(relocated([found[0], found[0], *found[1:]])))
    with path.open("rb") as file:
        assert reader._load_index(file, str(path), ()) is not None
    read_parts(recording)
