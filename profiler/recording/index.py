"""The index at the end of a long recording's file: what a reader needs but the intervals.

Its chunks are of the kinds ``GAIN`` and ``NAME`` in small letters, with all stacks and names, and
``node`` with the places of all sums. The chunk ``LAST`` behind them says where they begin.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from .chunks import CHUNK, Chunk, ChunkReader, DamageError
from .profile.stored import Node
from .row_columns import columns_of
from .sums_writer import SumsWriter

LAST, NODES = "LAST", "node"
INDEXED = ("META", "STAT", "TEXT", "CODE")  # chunks that the index names by their places
TABLES = ("gain", "name")
INDEX_KINDS = (LAST, NODES, *TABLES)
MAX_LAST_BYTES = 256


def as_index(chunk: Chunk) -> Chunk:
    """Return a chunk as one of the index: who reads all chunks in order leaves it out."""
    return replace(chunk, kind=chunk.kind.lower())


def nodes_chunk(sums: SumsWriter, places: Sequence[tuple[str, int]]) -> Chunk:
    """Return the chunk of the index that has all nodes.

    Args:
        sums: what was written.
        places: kinds and places of the chunks of the kinds ``INDEXED``, in their order.
    """
    nodes = [node for level in sums.nodes for node in level]
    columns = {name: np.array([getattr(each, name) for each in nodes]) for name in Node._fields}
    columns |= columns_of("single", np.concatenate(sums.singles))
    return Chunk(NODES, {"origin_ns": sums.origin_ns, "places": list(places)}, columns)


def last_chunk(at: int) -> Chunk:
    """Return the last chunk of a file whose index begins at ``at``."""
    return Chunk(LAST, {"index": at})


def index_of(reader: ChunkReader, n_bytes: int) -> Iterator[Chunk]:
    """Yield the chunks of a file's index; none if it has none, or one that cannot be read.

    Args:
        reader: of the file.
        n_bytes: its size.
    """
    at = _place(reader, n_bytes)
    if at is not None:
        yield from reader.from_place(at)


def _place(reader: ChunkReader, n_bytes: int) -> int | None:
    start = max(0, n_bytes - MAX_LAST_BYTES)
    tail = reader.bytes_at(start, MAX_LAST_BYTES)
    found = tail.rfind(LAST.encode("ascii"))
    if found < 0 or len(tail) - found < CHUNK.size:
        return None
    try:
        chunk = reader.at(start + found)
    except DamageError:
        return None
    at = chunk.facts.get("index") if chunk is not None else None
    if not isinstance(at, int) or isinstance(at, bool) or not 0 <= at < start + found:
        return None
    return at if reader.end == n_bytes else None


def places_of(nodes: Chunk) -> list[tuple[str, int]]:
    """Return kinds and places of the chunks that an index names, each once, in their order.

    Raises:
        DamageError: these cannot be.
    """
    found: list[tuple[str, int]] = []
    places = nodes.facts.get("places")
    for each in places if isinstance(places, list) else ():
        match each:
            case [str(kind), int(at)] if kind in INDEXED and at > (found[-1][1] if found else 0):
                found.append((kind, at))
            case _:
                raise DamageError("its index names a chunk that cannot be")
    return found
