"""A recording whose file comes piece by piece is, at its end, the one that is read at once."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from flametap.errors import InputError
from flametap.model import Clock, Function
from flametap.recording.chunks import HEADER, ChunkReader, encode
from flametap.recording.growing import Growing
from flametap.recording.kept_code import CODE, TEXT
from flametap.recording.opened import open_recording
from recording_files import KEPT, what_it_says

FILES = sorted(KEPT.glob("*.flametap"))


@pytest.mark.parametrize("path", FILES[:4], ids=lambda path: path.stem)
def test_pieces_make_the_whole(path: Path) -> None:
    data, rng = path.read_bytes(), random.Random(1)
    growing = Growing("far")
    seen, revision, at = 0, growing.recording.revision, 0
    while at < len(data):
        end = at + rng.choice((1, 7, 20, 1000, 50_000))
        growing.add(data[at:end])
        at = end
        now_ns = growing.recording.profile.total_ns(Clock.WALL)
        assert now_ns >= 0
        seen = max(seen, growing.recording.status().samples)
    assert not growing.damage
    growing.finish()
    assert growing.n_bytes == len(data)
    assert growing.recording.revision > revision
    assert seen > 0
    assert what_it_says(growing.recording) == what_it_says(open_recording(str(path)))


def test_functions_that_views_add_meanwhile_change_no_name() -> None:
    """As a page that looks while it comes: what calls a system call, what no name is known of."""
    path = KEPT / "python.flametap"
    whole = open_recording(str(path))
    data = path.read_bytes()
    growing = Growing("far")
    names = growing.recording.names
    for at in range(0, len(data), 2000):
        growing.add(data[at : at + 2000])
        growing.recording.function_id(Function(f"[made by a view {at}]", ""))
        names.pool(growing.recording.profile.n_addresses)
    growing.finish()
    n_addresses = whole.profile.n_addresses
    assert growing.recording.profile.n_addresses == n_addresses > 50
    assert [names.frames(each) for each in range(n_addresses)] == [
        whole.names.frames(each) for each in range(n_addresses)
    ]
    loaded = whole.code
    for function in whole.functions:
        if function.file:
            text = growing.code().text(function, function.file)
            assert text.lines == loaded.text(function, function.file).lines


def test_what_makes_no_sense_ends_it_and_what_came_before_stays() -> None:
    data = bytearray(FILES[0].read_bytes())
    middle = len(data) // 2
    data[middle] ^= 0xFF
    growing = Growing("far")
    for at in range(0, len(data), 999):
        growing.add(bytes(data[at : at + 999]))
    assert "checksum" in growing.damage or "chunk" in growing.damage
    growing.finish()
    assert growing.recording.status().is_final
    assert growing.recording.profile.total_ns(Clock.WALL) > 0


@pytest.mark.parametrize("data", [b"", b"x", b"x" * 100, FILES[0].read_bytes()[: HEADER.size]])
def test_what_is_no_recording_is_said(data: bytes) -> None:
    growing = Growing("far")
    growing.add(data)
    with pytest.raises(InputError):
        growing.finish()


def test_code_that_comes_again_takes_the_place_of_the_former() -> None:
    path = KEPT / "python.flametap"
    loaded = open_recording(str(path))
    data = path.read_bytes()
    with path.open("rb") as file:
        kept = [each for each in ChunkReader(file, "x") if each.kind in (TEXT, CODE)]
    growing = Growing("far")
    growing.add(data)
    n_kept = len(growing.code()._texts)
    for _ in range(5):
        for each in kept:
            growing.add(encode(each))
        assert len(growing._loading.found.others) == len(kept)
        assert len(growing.code()._texts) == n_kept > 0
    growing.finish()
    assert what_it_says(growing.recording) == what_it_says(loaded)
