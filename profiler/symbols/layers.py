"""Several symcaches as one: what the first does not know is asked of the next.

Form: ``FTLAYER1`` · u32 number of parts · for each its u64 size · the parts.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from flametap.symbols.lines import Chain, LinesError, LineSource

_MAGIC = b"FTLAYER1"
_COUNT = struct.Struct("<8sI")
_MAX_PARTS = 16


class Layers:
    """A source of lines made of others, the best first."""

    def __init__(self, sources: Sequence[LineSource]) -> None:
        self._sources = sources

    def lookup(self, file_addr: int) -> Chain:
        """The inline chain at ``file_addr``, outermost function first; empty if there is none."""
        return self.lookup_many([file_addr])[0]

    def lookup_many(self, file_addrs: Sequence[int]) -> list[Chain]:
        """The inline chain at each address."""
        chains: list[Chain] = [()] * len(file_addrs)
        open_ones = list(range(len(file_addrs)))
        for source in self._sources:
            found = source.lookup_many([file_addrs[i] for i in open_ones])
            for i, chain in zip(open_ones, found, strict=True):
                chains[i] = chain
            open_ones = [i for i, chain in zip(open_ones, found, strict=True) if not chain]
            if not open_ones:
                break
        return chains


def pack(parts: Sequence[bytes]) -> bytes:
    """Symcaches as one payload."""
    sizes = struct.pack(f"<{len(parts)}Q", *map(len, parts))
    return b"".join((_COUNT.pack(_MAGIC, len(parts)), sizes, *parts))


def unpack(payload: bytes) -> list[bytes]:
    """The symcaches of a payload made by :func:`pack`; ``[]`` if it is another thing.

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
