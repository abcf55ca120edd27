"""Recordings are written and read again; what a file says is believed only as far as it can be."""

from __future__ import annotations

import dataclasses
import io
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import wire
from flametap.errors import InputError
from flametap.model import Clock, Status
from flametap.recording import chunks, contents, reader, writer
from flametap.recording.chunks import Chunk, ChunkReader
from flametap.recording.contents import Loaded
from flametap.recording.names.table import SymbolTable
from flametap.recording.profile.store import Profile
from flametap.recording.reader import CUT_OFF, load
from flametap.recording.writer import RecordingWriter
from profiles import EPOLL_WAIT, MAIN_ADDR, WAIT_ADDR, WORK_ADDR, apply, name_addresses
from recordings import recorded

STATUS = Status(41, "/opt/prog --all", "ended", reason="stopped", notes=["a note"], is_final=True)


class Made:
    """A recording that grows in three steps, and its file."""

    def __init__(self, status: Status = STATUS) -> None:
        self.file = io.BytesIO()
        self.profile = Profile()
        self.profile.keep_new()
        self.table = SymbolTable(self.profile.locate)
        self.writer = RecordingWriter(self.file, recorded(self.profile, self.table, status))
        self.ends: list[int] = []
        for step in range(3):
            self.grow(step)
            name_addresses(self.profile, self.table)
            self.writer.step()
            self.ends.append(len(self.data))

    @property
    def data(self) -> bytes:
        return self.file.getvalue()

    def grow(self, step: int) -> None:
        at = 1_000_000 + step * 1_000_000
        apply(
            self.profile,
            at + 900_000,
            modules=[wire.module(1, "/opt/prog")] if not step else [],
            threads=[wire.thread(1 + step, 101 + step, f"thread {step}")],
            traces=[
                wire.trace(1 + step, [WORK_ADDR, *([MAIN_ADDR] * (1 + step))]),
                wire.trace(100 + step, [WAIT_ADDR, MAIN_ADDR]),
            ],
            intervals=[
                wire.interval(1 + step, 1 + step, at, 2_000, 1_500),
                wire.interval(1 + step, 100 + step, at + 2_000, 5_000, 0, 2, sysno=EPOLL_WAIT),
            ],
        )


def loaded(data: bytes) -> Loaded:
    return load(io.BytesIO(data), "x")


def sums(profile: Profile) -> list[list[int]]:
    found = [profile.leaf_weights(clock) for clock in Clock]
    return [
        column.tolist()
        for each in found
        for column in (each.thread_id, each.node, each.sysno, each.weight)
    ]


def test_loaded_recording_is_the_one_that_was_written() -> None:
    made = Made()
    made.writer.finish()
    found = loaded(made.data)
    assert sums(found.profile) == sums(made.profile)
    assert found.profile.threads == made.profile.threads
    assert found.profile.modules == made.profile.modules
    assert found.profile.duration_ns == made.profile.duration_ns
    assert found.profile.samples == made.profile.samples
    assert list(found.table.functions) == list(made.table.functions)
    for address_id, _ in made.profile.news().addresses:
        assert found.table.frames(address_id) == made.table.frames(address_id)
    assert found.status == STATUS
    assert found.meta["flametap"]


def test_recording_without_an_end_has_all_that_was_written() -> None:
    made = Made(dataclasses.replace(STATUS, state="recording", is_final=False))
    for step, end in enumerate(made.ends):
        for data in (made.data[:end], made.data[: end + 7]):
            found = loaded(data)
            assert found.status.reason == CUT_OFF
            assert found.status.is_final
            assert len(found.profile.threads) == step + 1
            assert any("cut off after" in note for note in found.status.notes)


def test_file_without_samples_is_refused() -> None:
    with pytest.raises(InputError, match="has no samples"):
        loaded(chunks.header())


def changed(change: Callable[[dict[str, Any], dict[str, Any]], None], kind: str = "GAIN") -> bytes:
    """A file whose last chunk of a kind says something else, with a right checksum."""
    made = Made()
    made.writer.finish()
    found = list(ChunkReader(io.BytesIO(made.data), "x"))
    at = max(number for number, chunk in enumerate(found) if chunk.kind == kind and chunk.columns)
    facts, columns = dict(found[at].facts), dict(found[at].columns)
    change(facts, columns)
    found[at] = Chunk(kind, facts, columns)
    return chunks.header() + b"".join(chunks.encode(each) for each in found[: at + 1])


def column(name: str, value: int) -> Callable[[dict[str, Any], dict[str, Any]], None]:
    def change(facts: dict[str, Any], columns: dict[str, Any]) -> None:
        del facts
        numbers = columns[name].astype(np.int64)
        numbers[-1] = value
        columns[name] = numbers

    return change


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("stacks.parent", value) for value in (-1, 1 << 20, 1 << 40)),
        ("stacks.address", 1 << 20),
        ("stacks.depth", 1),
        ("stacks.node", 1 << 20),
        ("stacks.verdict", 200),
        ("cells.what", 0),
        ("cells.what", (1 << 40) | 1),
        ("rows.cell", 1 << 20),
        ("rows.cell", -1),
        ("rows.wall_ns", -5),
        ("rows.wall_ns", 1 << 61),
        ("rows.t0_ns", -(1 << 50)),
    ],
)
def test_impossible_number_ends_the_recording_before_it(name: str, value: int) -> None:
    found = loaded(changed(column(name, value)))
    assert found.profile.duration_ns > 0
    assert any("cannot be read beyond byte" in note for note in found.status.notes)


@pytest.mark.parametrize("name", ["function", "first", "address"])
def test_name_of_something_that_is_not_there_ends_it_too(name: str) -> None:
    found = loaded(changed(column(name, 1 << 20), "NAME"))
    assert any("cannot be read beyond byte" in note for note in found.status.notes)


@pytest.mark.parametrize(
    "facts",
    [
        {"threads": 7},
        {"threads": [[1]]},
        {"threads": [[1 << 40, 1, "a", 0, False, False, ""]]},
        {"modules": [["a"]]},
        {"now_ns": -1},
        {"now_ns": 1 << 63},
        {"start_ns": "x"},
        {"hidden": [None]},
    ],
)
def test_impossible_fact_ends_it_too(facts: dict[str, Any]) -> None:
    found = loaded(changed(lambda before, _: before.update(facts)))
    assert any("cannot be read beyond byte" in note for note in found.status.notes)


def test_changed_files_with_right_checksums_raise_nothing_but_clean_errors() -> None:
    made = Made()
    made.writer.finish()
    whole = list(ChunkReader(io.BytesIO(made.data), "x"))
    draw = random.Random(3)
    for _ in range(300):
        found = list(whole)
        at = draw.randrange(len(found))
        columns = dict(found[at].columns)
        for name in draw.sample(sorted(columns), min(2, len(columns))):
            numbers = columns[name].astype(np.int64)
            numbers[draw.randrange(len(numbers))] = draw.choice(
                (-1, 0, 1, 255, 1 << 31, 1 << 62, draw.randrange(1 << 20))
            )
            columns[name] = numbers[: draw.randrange(len(numbers) + 1)]
        found[at] = Chunk(found[at].kind, found[at].facts, columns)
        if draw.random() < 0.2:
            found.insert(0, found.pop(at))
        data = chunks.header() + b"".join(map(chunks.encode, found))
        try:
            profile = loaded(data).profile
        except InputError:
            continue
        for clock in Clock:
            assert profile.leaf_weights(clock).total >= 0


def test_many_intervals_are_several_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "MAX_ROWS", 1)
    made = Made()
    made.writer.finish()
    assert sums(loaded(made.data).profile) == sums(made.profile)


def test_chunks_of_other_kinds_are_left_out_or_kept_up_to_a_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = Made()
    made.writer.finish([Chunk("XXXX", {"a": 1}), Chunk("YYYY", {"a": 2}), Chunk("YYYY", {"a": 3})])
    assert load(io.BytesIO(made.data), "x").others == []
    assert [each.facts for each in load(io.BytesIO(made.data), "x", ("YYYY",)).others] == [
        {"a": 2},
        {"a": 3},
    ]
    monkeypatch.setattr(reader, "_MAX_KEPT_BYTES", 40)
    assert len(load(io.BytesIO(made.data), "x", ("YYYY",)).others) == 1


@pytest.mark.parametrize("limit", ["_MAX_FUNCTIONS", "_MAX_FRAMES", "_MAX_TEXT"])
def test_more_names_than_fit_end_the_recording(monkeypatch: pytest.MonkeyPatch, limit: str) -> None:
    made = Made()
    made.writer.finish()
    monkeypatch.setattr(contents, limit, 1)
    assert any("more names" in note for note in loaded(made.data).status.notes)
