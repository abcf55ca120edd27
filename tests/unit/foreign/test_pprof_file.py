"""pprof: our own clocks, other tools' values, labels; our own files read again."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from flametap.export.protobuf import message, packed, whole
from flametap.foreign.opening import open_file
from flametap.model import Clock, FrameKind
from foreign_files import error_of, exported, opened, random_recording, stacks

DATA = Path(__file__).resolve().parents[2] / "data" / "foreign"


class Made:
    """A profile that is made field by field."""

    def __init__(self, *types: tuple[str, str], default: str = "") -> None:
        self._strings = {"": 0}
        self.data = b"".join(message(1, self._pair(*each)) for each in types)
        self.data += whole(14, self.text(default))

    def text(self, words: str) -> int:
        return self._strings.setdefault(words, len(self._strings))

    def _pair(self, name: str, unit: str) -> bytes:
        return whole(1, self.text(name)) + whole(2, self.text(unit))

    def sample(self, locations: Iterable[int], values: Iterable[int], **labels: Any) -> None:
        found = packed(1, locations) + packed(2, values)
        for key, value in labels.items():
            is_text = isinstance(value, str)
            what = whole(2, self.text(value)) if is_text else whole(3, value)
            found += message(3, whole(1, self.text(key)) + what)
        self.data += message(2, found)

    def location(self, number: int, *lines: tuple[int, int], mapping: int = 1) -> None:
        found = whole(1, number) + whole(2, mapping) + whole(3, 0x1000 + number)
        found += b"".join(message(4, whole(1, at) + whole(2, line)) for at, line in lines)
        self.data += message(4, found)

    def function(self, number: int, name: str, file: str) -> None:
        texts = whole(2, self.text(name)) + whole(4, self.text(file))
        self.data += message(5, whole(1, number) + texts)

    def mapping(self, number: int, path: str) -> None:
        self.data += message(3, whole(1, number) + whole(5, self.text(path)))

    def whole(self) -> bytes:
        return self.data + b"".join(message(6, each.encode()) for each in self._strings)


def made(*types: tuple[str, str], default: str = "") -> Made:
    found = Made(*types, default=default)
    found.mapping(1, "/opt/prog")
    found.function(1, "main", "/src/main.c")
    found.function(2, "clamp", "/src/clamp.h")
    found.location(1, (1, 7))
    found.location(2, (2, 3), (1, 9))  # clamp, inlined into main
    found.location(3)
    return found


def test_profile_of_go_shows_its_time(tmp_path: Path) -> None:
    file = made(("samples", "count"), ("cpu", "nanoseconds"))
    file.sample([2], [3, 30_000_000], thread="pool", tid=12)
    file.sample([3, 1], [1, 10_000_000])
    recording = opened(tmp_path, "x", gzip.compress(file.whole()))
    assert stacks(recording) == {
        ("main", "clamp"): 30_000_000,
        ("main", "prog+0x1003"): 10_000_000,
    }
    status = recording.status()
    assert (status.clocks, status.weights, status.samples) == (["cpu"], "", 4)
    assert not status.has_moments
    assert not status.notes
    threads = recording.profile.threads.values()
    assert {(each.name, each.tid) for each in threads} == {("pool", 12), ("", 0)}
    kinds = {each.name: (each.module, each.kind) for each in recording.functions}
    assert kinds["clamp"] == ("prog", FrameKind.INLINED)


def test_other_values_are_named_in_a_note(tmp_path: Path) -> None:
    types = ("alloc_objects", "count"), ("alloc_space", "bytes"), ("inuse_space", "bytes")
    file = made(*types, default="alloc_space")
    file.sample([1], [5, 4096, 0])
    recording = opened(tmp_path, "x", file.whole())
    assert (stacks(recording), recording.status().weights) == ({("main",): 4096}, "bytes")
    assert "not shown: alloc_objects, inuse_space" in recording.status().notes[0]


@pytest.mark.parametrize("seed", range(3))
def test_our_own_file_has_the_same_trees(tmp_path: Path, seed: int) -> None:
    recording = random_recording(seed)
    path = exported(recording, tmp_path, "x.pb.gz", "pprof", Clock.CPU)
    again = open_file(str(path))
    for clock in Clock:
        assert stacks(again, clock) == stacks(recording, clock)
    profile = recording.profile
    assert again.profile.samples == profile.samples
    assert {(each.name, each.tid) for each in again.profile.threads.values()} == {
        (each.name, each.tid) for each in profile.threads.values()
    }


@pytest.mark.parametrize("name", ["go-cpu", "go-heap"])
def test_sums_are_those_of_go_tool_pprof(name: str) -> None:
    """The sums are those of ``go tool pprof -top -nodecount=500 -nodefraction=0 -unit=ns``."""
    recording = open_file(str(DATA / f"{name}.pb.gz"))
    expected = json.loads((DATA / f"{name}.json").read_text())
    own: Counter[str] = Counter()
    total: Counter[str] = Counter()
    for stack, weight in stacks(recording).items():
        own[stack[-1]] += weight
        for function in {*stack}:
            total[function] += weight
    assert {each: [own[each], total[each]] for each in total} == expected


def changed(
    locations: Iterable[int] = (1,), values: Iterable[int] = (1,), after: bytes = b""
) -> bytes:
    file = made(("cpu", "nanoseconds"))
    file.sample(locations, values)
    return file.whole() + after


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (changed(locations=[9]), "makes no sense"),
        (changed(values=[1, 2]), "another number of values"),
        (changed(values=[1 << 62]), "too large"),
        (changed(values=[-1]), "negative"),
        (changed(values=[0]), "no samples"),
        (changed(after=b"\x12\xff\xff\xff\xff\xff\xff\xff\xff\x7f"), "longer than the rest"),
        (changed(after=b"\x08" + b"\xff" * 11), "more than 64 bits"),
        (changed()[:-3], "makes no sense"),
        (gzip.compress(changed())[:-9], "cannot be unpacked beyond byte"),
    ],
)
def test_what_makes_no_sense_is_refused(tmp_path: Path, data: bytes, why: str) -> None:
    assert why in error_of(tmp_path, data)


def test_of_many_inlined_frames_the_outermost_stay(tmp_path: Path) -> None:
    found = Made(("samples", "count"))
    found.function(1, "inlined", "a.c")
    found.function(2, "main", "a.c")
    found.location(1, *[(1, 1)] * 20_000, (2, 1))
    found.sample([1], [3])
    assert stacks(opened(tmp_path, "x", found.whole())) == {("main", *["inlined"] * 999): 3}
