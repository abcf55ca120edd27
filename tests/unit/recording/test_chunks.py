"""The chunks of a recording file, whole, cut and damaged."""

from __future__ import annotations

import contextlib
import io
import random

import numpy as np
import pytest
import zstandard

from flametap.errors import InputError
from flametap.recording import chunks
from flametap.recording.chunks import Chunk, ChunkReader, DamageError

NUMBERS: dict[str, np.ndarray] = {
    "small": np.array([0, 1, 255], np.int64),
    "negative": np.array([-1, 5], np.int64),
    "large": np.array([1 << 63, 7], np.uint64),
    "none": np.array([], np.int32),
}
FACTS = {"name": "café", "threads": [[1, "a"]]}


def a_file(count: int = 3) -> bytes:
    chunk = chunks.encode(Chunk("TEST", FACTS, NUMBERS, process=2))
    return chunks.header() + chunk * count


def read(data: bytes) -> tuple[list[Chunk], ChunkReader]:
    reader = ChunkReader(io.BytesIO(data), "x")
    return list(reader), reader


def test_what_is_written_is_read() -> None:
    found, reader = read(a_file())
    assert reader.damage == ""
    assert reader.end == len(a_file())
    for chunk in found:
        assert (chunk.kind, chunk.process, chunk.facts) == ("TEST", 2, FACTS)
        for name, column in NUMBERS.items():
            assert chunk.column(name, column.dtype).tolist() == column.tolist()


def test_file_that_was_cut_anywhere_is_read_up_to_its_last_whole_chunk() -> None:
    data = a_file()
    ends = [len(a_file(count)) for count in range(4)]
    for length in range(len(chunks.header()), len(data)):
        found, reader = read(data[:length])
        whole = sum(end <= length for end in ends[1:])
        assert len(found) == whole
        assert reader.end == ends[whole]
        assert reader.damage == ("" if length in ends else "it ends inside a chunk")


def test_no_change_of_a_byte_goes_unseen() -> None:
    data = a_file(2)
    for at in range(len(data)):
        changed = bytearray(data)
        changed[at] ^= 1 << at % 8
        try:
            found, reader = read(bytes(changed))
        except InputError:
            assert at < chunks.HEADER.size
        else:
            assert len(found) < 2
            assert reader.damage


@pytest.mark.parametrize("data", [b"", b"{}", b"\x93flametap", bytes(100)])
def test_other_file_is_refused(data: bytes) -> None:
    with pytest.raises(InputError, match="x is no recording"):
        read(data)


def test_file_of_a_newer_version_is_refused() -> None:
    newer = chunks.HEADER.pack(chunks.MAGIC, chunks.VERSION + 1)
    with pytest.raises(InputError, match="version 2"):
        read(newer)


def stored(kind: bytes, packed: bytes, n_packed: int | None = None) -> bytes:
    """A chunk with a right checksum, whatever it holds."""
    start = kind, 0, len(packed), len(packed) if n_packed is None else n_packed
    return chunks.CHUNK.pack(*start, chunks._checksum(start, packed)) + packed


@pytest.mark.parametrize(
    ("chunk", "damage"),
    [
        (stored(b"TEST", b"no zstd"), "cannot be unpacked"),
        (stored(b"TEST", zstandard.compress(bytes(1 << 20)), 100), "another size"),
        (stored(b"TEST", zstandard.compress(b"\x02\0\0\0{}"), 6), "does not describe"),
        (stored(b"TEST", zstandard.compress(b"\x02\0\0\0]]"), 6), "no JSON"),
        (stored(b"TEST", zstandard.compress(b"ab"), 2), "is empty"),
        (chunks.CHUNK.pack(b"TEST", 0, 1 << 31, 1, 0), "too large"),
    ],
)
def test_hostile_chunk_ends_the_file(chunk: bytes, damage: str) -> None:
    found, reader = read(a_file(1) + chunk + a_file(1))
    assert len(found) == 1
    assert damage in reader.damage
    assert reader.end == len(a_file(1))


def test_bomb_is_not_unpacked() -> None:
    """A gigabyte of zeros in 33 kB, which claims to be small."""
    bomb = zstandard.ZstdCompressor(level=1).compress(bytes(1 << 28) * 2)
    _, reader = read(chunks.header() + stored(b"TEST", bomb, 1000))
    assert "another size" in reader.damage


def test_number_that_does_not_fit_is_refused() -> None:
    ((chunk,), _) = read(chunks.header() + chunks.encode(Chunk("TEST", {}, NUMBERS)))
    with pytest.raises(DamageError, match="too large"):
        chunk.column("large", "i4")
    with pytest.raises(DamageError, match="too large"):
        chunk.column("negative", "u8")


def test_text_that_is_no_unicode_is_written_all_the_same() -> None:
    ((chunk,), _) = read(chunks.header() + chunks.encode(Chunk("TEST", {"a": ["\udc80b"]})))
    assert chunk.facts == {"a": ["?b"]}


def test_random_bytes_raise_nothing_but_clean_errors() -> None:
    draw = random.Random(7)
    data = a_file()
    for _ in range(2_000):
        changed = bytearray(data)
        for _ in range(draw.randrange(1, 8)):
            changed[draw.randrange(len(changed))] = draw.randrange(256)
        with contextlib.suppress(InputError):
            read(bytes(changed[: draw.randrange(len(changed))]))
