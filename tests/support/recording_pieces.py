"""Take the file of a recording to pieces, and put it together again, with right checksums. Pure."""

from __future__ import annotations

import functools
import io
import json
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import zstandard

from flametap.recording.chunks import CHUNK, ChunkReader, header, narrow

Columns = dict[str, Any]


@dataclass(frozen=True)
class Piece:
    """A chunk: its bytes, or what they are made from."""

    kind: bytes
    process: int
    facts: dict[str, Any]
    columns: Columns
    raw: bytes  # all of it, as long as it is not changed
    offset: int = -1  # where it was in the file that it is of


@functools.lru_cache(maxsize=64)
def pieces_of(data: bytes) -> tuple[Piece, ...]:
    """Return the chunks of a whole file."""
    reader = ChunkReader(io.BytesIO(data), "seed")
    found = []
    for chunk in reader:
        raw = data[chunk.offset : reader.end]
        columns = dict(chunk.columns)
        kind, facts = chunk.kind.encode(), dict(chunk.facts)
        found.append(Piece(kind, chunk.process, facts, columns, raw, chunk.offset))
    assert not reader.damage
    return tuple(found)


def merged(piece: Piece, after: Piece) -> Piece:
    """Return what two chunks of kind GAIN say, one after the other, as one."""
    lists = {
        name: [*piece.facts.get(name, []), *after.facts.get(name, [])]
        for name in ("threads", "modules", "hidden")
    }
    columns: Columns = {}
    for name in {**piece.columns, **after.columns}:
        parts = [each.columns[name] for each in (piece, after) if name in each.columns]
        if name.startswith("open."):
            parts = [after.columns.get(name, np.empty(0, np.uint8))]
        elif name == "rows.t0_ns":  # each is the distance to the one before
            starts = np.concatenate([np.cumsum(each.astype(np.int64)) for each in parts])
            parts = [np.diff(starts, prepend=0)]
        columns[name] = np.concatenate(parts)
    return replace(piece, facts={**piece.facts, **after.facts, **lists}, columns=columns)


def joined(pieces: Sequence[Piece]) -> bytes:
    """Return the file of some chunks."""
    return header() + b"".join(each.raw for each in pieces)


def made(piece: Piece) -> Piece:
    """Return a chunk with the bytes of what it holds."""
    return stored(piece, packed(piece.facts, piece.columns))


def packed(facts: dict[str, Any], columns: Columns, described: Any = None) -> bytes:
    """Return the payload of a chunk. JSON of Python's own: it has surrogates, NaN, and any number.

    Args:
        facts: without ``columns``.
        columns: by name.
        described: what the chunk says of its columns, if it is not the truth.
    """
    narrowed = {name: narrow(each) for name, each in columns.items() if len(each)}
    if described is None:
        described = [[name, each.dtype.str, len(each)] for name, each in narrowed.items()]
    text = json.dumps({**facts, "columns": described}, separators=(",", ":")).encode()
    text += b" " * (-(4 + len(text)) % 8)
    parts = [each.tobytes() for each in narrowed.values()]
    body = b"".join(part + bytes(-len(part) % 8) for part in parts)
    return len(text).to_bytes(4, "little") + text + body


def stored(piece: Piece, payload: bytes, claimed: int | None = None) -> Piece:
    """Return a chunk with a payload and a right checksum.

    Args:
        piece: its kind and process are kept.
        payload: unpacked.
        claimed: its length, if that is not the truth.
    """
    frame = zstandard.ZstdCompressor(level=1).compress(payload)
    return sealed(piece, frame, len(payload) if claimed is None else claimed)


def sealed(piece: Piece, frame: bytes, n_packed: int) -> Piece:
    """Return a chunk with some stored bytes and a right checksum."""
    start = piece.kind, piece.process, len(frame), n_packed
    checksum = zlib.crc32(frame, zlib.crc32(CHUNK.pack(*start, 0)))
    return replace(piece, raw=CHUNK.pack(*start, checksum) + frame)
