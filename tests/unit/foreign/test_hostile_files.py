"""Files that are not what they seem, or far too much of it."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path
from typing import Any

import pytest
import zstandard

from flametap.errors import InputError
from flametap.foreign import builder, opening, unpacked
from flametap.foreign.opening import check_file, open_file
from flametap.wire.abi import MAX_FRAMES
from foreign_files import error_of, opened, stacks


def speedscope(names: list[str], samples: list[list[int]]) -> str:
    frames = [{"name": each} for each in names]
    profile = {"type": "sampled", "name": "t", "unit": "none", "startValue": 0, "endValue": 1}
    profile |= {"samples": samples, "weights": [1] * len(samples)}
    return json.dumps({"shared": {"frames": frames}, "profiles": [profile]})


@pytest.mark.parametrize("pack", [gzip.compress, zstandard.compress], ids=["gzip", "zstd"])
def test_bomb_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pack: Any) -> None:
    monkeypatch.setattr(unpacked, "MAX_BYTES", 1 << 20)
    bomb = pack(b'{"shared": ' + b" " * (1 << 26))
    assert len(bomb) < 1 << 17
    assert "has more than" in error_of(tmp_path, bomb)


def test_stack_of_a_million_frames_loses_its_innermost(tmp_path: Path) -> None:
    recording = opened(tmp_path, "x", speedscope(["f", "leaf"], [[0] * 1_000_000 + [1]]))
    (found,) = stacks(recording)
    assert found == ("f",) * MAX_FRAMES
    assert "deeper than 2,048 in a stack are left out" in recording.status().notes[0]


def test_more_functions_than_fit_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(builder, "_MAX_ADDRESSES", 1000)
    data = speedscope([f"f{number}" for number in range(2000)], [[0]])
    assert "more functions than fit into memory" in error_of(tmp_path, data)
    monkeypatch.setattr(builder, "_MAX_NODES", 1000)
    data = speedscope(["a", "b"], [[(at >> bit) & 1 for bit in range(10)] for at in range(1024)])
    assert "more different stacks than fit into memory" in error_of(tmp_path, data)


@pytest.mark.parametrize(
    "data",
    [b"", b"\0" * 100, b"hello", b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"[" * 100_000, b"\xff\xfe{"],
)
def test_what_is_no_profile_is_refused(tmp_path: Path, data: bytes) -> None:
    assert error_of(tmp_path, data)


def test_nothing_is_executed_by_a_terminal(tmp_path: Path) -> None:
    name = "a\x1b]0;owned\x07\n\r\u202eb"
    recording = opened(tmp_path, "x", speedscope([name], [[0]]))
    assert {each.name for each in recording.functions} >= {name}, "who shows it makes it harmless"
    message = error_of(tmp_path, json.dumps({"shared": {"frames": [{name: 1}]}, "profiles": []}))
    assert message.isprintable()


def test_missing_file_and_folder_have_one_line(tmp_path: Path) -> None:
    for path in (tmp_path / "none", tmp_path, "/dev/null"):
        for attempt in (open_file, check_file):
            with pytest.raises(InputError) as caught:
                attempt(os.fspath(path))
            assert "\n" not in caught.value.message


def test_zstd_that_was_cut_is_refused(tmp_path: Path) -> None:
    lines = "".join(f"main;f{number % 9} {number}\n" for number in range(20_000)).encode()
    packed = zstandard.compress(lines)
    frames = zstandard.compress(lines[:100_000]) + zstandard.compress(lines[100_000:])
    skipped = b"\x5e\x2a\x4d\x18\x03\0\0\0abc"
    for whole in (packed, frames, skipped + packed + skipped):
        assert sum(stacks(opened(tmp_path, "x", whole)).values()) == 199_990_000
    for cut in (packed[:-1], packed[: len(packed) // 2], frames[: len(frames) * 3 // 4]):
        message = error_of(tmp_path, cut)
        assert "cannot be unpacked beyond byte" in message
        assert message.endswith(": it ends too early")


@pytest.mark.parametrize("piece", [b"[[],[]],", b'{"a":{}},', b"1234,"])
def test_json_of_more_values_than_fit_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, piece: bytes
) -> None:
    monkeypatch.setattr(opening, "MAX_JSON_BYTES", 1 << 20)
    data = b"[" + piece * 10_500 + b"1]"
    assert "more values than fit into memory" in error_of(tmp_path, gzip.compress(data))
