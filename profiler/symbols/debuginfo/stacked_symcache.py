"""Combine several symcaches: an address that the first does not know is looked up in the next.

Format: ``FTLAYER1`` · u32 number of parts · for each its u64 size · the parts.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

import numpy as np

from ...recording.names.inline_chains import (
    Chain,
    Chains,
    LinesError,
    LineSource,
    unpack_chains,
)

_MAGIC = b"FTLAYER1"
_COUNT = struct.Struct("<8sI")
_MAX_PARTS = 16


class Layers:
    """A source of lines that combines others, the best first."""

    def __init__(self, sources: Sequence[LineSource]) -> None:
        self._sources = sources

    def lookup(self, file_addr: int) -> Chain:
        """Return the inline chain at ``file_addr``, outermost function first; empty if unknown."""
        return self.lookup_many([file_addr])[0]

    def lookup_many(self, file_addrs: Sequence[int]) -> list[Chain]:
        """Return the inline chain at each address."""
        return unpack_chains(self.chains(file_addrs))

    def chains(self, file_addrs: Sequence[int]) -> Chains:
        """Return the inline chain at each address, in columns."""
        of = np.full(len(file_addrs), -1, np.int64)
        parts: list[Chains] = []
        n_chains = 0
        for source in self._sources:
            left = np.nonzero(of < 0)[0]
            if parts and not len(left):
                break
            part = source.chains([file_addrs[i] for i in left.tolist()])
            of[left] = np.where(part.of >= 0, part.of + n_chains, -1)
            n_chains += len(part.first)
            parts.append(part)
        rows = np.cumsum([0] + [len(part.line) for part in parts])
        symbols = np.cumsum([0] + [len(part.symbols) for part in parts])
        files = np.cumsum([0] + [len(part.files) for part in parts])
        return Chains(
            of,
            np.concatenate([part.first + n for part, n in zip(parts, rows, strict=False)]),
            np.concatenate([part.count for part in parts]),
            np.concatenate([part.symbol + n for part, n in zip(parts, symbols, strict=False)]),
            np.concatenate([part.file + n for part, n in zip(parts, files, strict=False)]),
            np.concatenate([part.line for part in parts]),
            [symbol for part in parts for symbol in part.symbols],
            [file for part in parts for file in part.files],
        )


def pack(parts: Sequence[bytes]) -> bytes:
    """Join symcaches into one payload."""
    sizes = struct.pack(f"<{len(parts)}Q", *map(len, parts))
    return b"".join((_COUNT.pack(_MAGIC, len(parts)), sizes, *parts))


def unpack(payload: bytes) -> list[bytes]:
    """Return the symcaches of a payload made by :func:`pack`; ``[]`` if it has another format.

    Raises:
        LinesError: it is damaged.
    """
    if payload[: len(_MAGIC)] != _MAGIC:
        return []
    try:
        _, count = _COUNT.unpack_from(payload)
        sizes = struct.unpack_from(f"<{min(count, _MAX_PARTS)}Q", payload, _COUNT.size)
    except struct.error as error:
        raise LinesError("damaged symcache: cut short") from error
    place = _COUNT.size + 8 * len(sizes)
    if place + sum(sizes) != len(payload):
        raise LinesError("damaged symcache: cut short")
    parts = []
    for size in sizes:
        parts.append(payload[place : place + size])
        place += size
    return parts
