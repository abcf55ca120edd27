"""What damaged recordings have shown: each test has the smallest change that shows a defect."""

from __future__ import annotations

import io
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from flametap.errors import InputError
from flametap.model import Clock
from flametap.recording import reader
from flametap.recording.contents import Loaded
from flametap.recording.expansion import n_frames
from flametap.recording.reader import load
from recording_files import KEPT
from recording_pieces import Piece, joined, made, merged, pieces_of

Change = Callable[[dict[str, Any], dict[str, Any]], None]


def pieces() -> list[Piece]:
    """A recording of a program, in the order of time, with one chunk of samples."""
    found = pieces_of((KEPT / "c.flametap").read_bytes())
    gains = [each for each in found if each.kind == b"GAIN"]
    gain = gains[0]
    for each in gains[1:]:
        gain = merged(gain, each)
    return [found[0], made(gain), *(each for each in found[1:] if each.kind != b"GAIN")]


def read(changed: list[Piece]) -> Loaded:
    return load(io.BytesIO(joined(changed)), "x")


def with_change(kind: bytes, change: Change) -> list[Piece]:
    """The recording, of which the first chunk of a kind says something else."""
    found = pieces()
    at = next(at for at, each in enumerate(found) if each.kind == kind)
    facts, columns = dict(found[at].facts), dict(found[at].columns)
    change(facts, columns)
    found[at] = made(replace(found[at], facts=facts, columns=columns))
    return found


def is_cut(found: Loaded) -> bool:
    return any("cannot be read beyond byte" in note for note in found.status.notes)


def test_unchanged_recording_is_whole() -> None:
    assert not is_cut(read(pieces()))


def test_system_call_that_cannot_be_ends_the_recording() -> None:
    def change(_: dict[str, Any], columns: dict[str, Any]) -> None:
        columns["kernel"], columns["call"] = np.array([0]), np.array([1 << 15])

    assert is_cut(read(with_change(b"NAME", change)))


def test_address_has_a_thousand_frames_at_most() -> None:
    def change(_: dict[str, Any], columns: dict[str, Any]) -> None:
        for name in ("function", "line", "file"):
            columns[name] = np.zeros(5_000, np.int64)
        columns["first"] = np.zeros(len(columns["address"]), np.int64)
        columns["count"] = columns["first"] + (1 << 10)

    assert is_cut(read(with_change(b"NAME", change)))


def test_more_frames_than_fit_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each node may have a thousand, and there may be 700,000 nodes."""

    def change(_: dict[str, Any], columns: dict[str, Any]) -> None:
        # Between two addresses that call each other, three frames have left no trace.
        gain = next(each for each in pieces() if each.kind == b"GAIN")
        address, parent = gain.columns["stacks.address"], gain.columns["stacks.parent"]
        node = next(at for at, above in enumerate(parent.tolist()) if above > 3)
        pair = int(address[int(parent[node]) - 4]) << 32 | int(address[node])
        columns |= {"lost": np.array([pair]), "lost_first": np.array([0])}
        columns["lost_count"] = np.array([3])

    found = read(with_change(b"NAME", change))
    expected = frames_of_nodes(found)
    assert not is_cut(found)
    assert n_frames(found.profile, found.table) == expected > frames_of_nodes(read(pieces()))
    monkeypatch.setattr(reader, "MAX_FRAMES", expected - 1)
    with pytest.raises(InputError, match="more frames than fit into memory"):
        read(with_change(b"NAME", change))


def frames_of_nodes(found: Loaded) -> int:
    trie, names = found.profile.trie(), found.table
    address, parent = trie.address.tolist(), trie.parent.tolist()
    return sum(
        len(names.frames(each)) + len(names.lost(address[parent[node]], each))
        for node, each in enumerate(address)
        if each >= 0
    )


@pytest.mark.parametrize("started_s", [-1.0, 1e12, 1e300])
def test_state_of_a_time_without_a_date_ends_it(started_s: float) -> None:
    changed = with_change(b"STAT", lambda facts, _: facts.update(started_s=started_s))
    assert any("impossible started_s" in note for note in read(changed).status.notes)


@pytest.mark.parametrize(
    "wrong", [{"pid": 1 << 63}, {"counters": {"ticks": 1 << 70}}, {"rate_hz": math.inf}]
)
def test_state_with_impossible_numbers_ends_it(wrong: dict[str, Any]) -> None:
    assert is_cut(read(with_change(b"STAT", lambda facts, _: facts.update(wrong))))


def test_open_intervals_of_impossible_times_end_it() -> None:
    """The sum of three of them is less than nothing."""

    def change(facts: dict[str, Any], columns: dict[str, Any]) -> None:
        rows = {name: each for name, each in columns.items() if name.startswith("rows.")}
        for name, each in rows.items():
            columns[name.replace("rows.", "open.")] = each[:3]
        columns["open.t0_ns"] = np.full(3, facts["now_ns"])
        columns["open.cpu_ns"] = np.full(3, (1 << 62) - 1)

    with pytest.raises(InputError, match="add up to more than 36 years"):
        read(with_change(b"GAIN", change))


def test_thread_that_is_only_known_by_its_time_is_one() -> None:
    found = read(with_change(b"GAIN", lambda facts, _: facts.update(threads=[]))).profile
    threads = found.thread_infos()
    assert {each.tid for each in threads} == {0}
    assert sum(each.wall_ns for each in threads) == found.leaf_weights(Clock.WALL).total > 0


def test_thread_stays_hidden_whatever_comes_later() -> None:
    found = list(pieces_of((KEPT / "c.flametap").read_bytes()))
    first = next(at for at, each in enumerate(found) if "threads" in each.facts)
    hidden = found[first].facts["threads"][0][0]
    assert hidden in read(found).profile.leaf_weights(Clock.WALL).thread_id
    found[first] = made(replace(found[first], facts={**found[first].facts, "hidden": [hidden]}))
    assert hidden not in read(found).profile.leaf_weights(Clock.WALL).thread_id
