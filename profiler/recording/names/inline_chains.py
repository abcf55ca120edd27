"""Define inline chains of source frames, the result of every source of lines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

# The symbol of code that has lines but belongs to no function of the debug information.
UNCLAIMED = "?"


class LinesError(Exception):
    """Lines and inlined functions cannot be read; the message is one line for the user."""


class SourceFrame(NamedTuple):
    """One function of an inline chain, and the file and line in it."""

    symbol: str  # mangled if DWARF has a linkage name
    file: str  # "" if unknown
    line: int  # 0 if unknown


# Outermost function first; empty if nothing is known.
Chain = tuple[SourceFrame, ...]

Indexes = NDArray[np.int64]


@dataclass(frozen=True)
class Chains:
    """The chains at many addresses in columns, each distinct one once.

    The frames of chain ``c``, outermost first, are rows ``first[c] : first[c] + count[c]`` of
    ``symbol``, ``file`` and ``line``. These have at least one row, so indexing row 0 never fails.
    """

    of: Indexes  # per address: its chain, -1 if nothing is known
    first: Indexes
    count: Indexes
    symbol: Indexes  # per row: index into ``symbols``
    file: Indexes  # per row: index into ``files``
    line: Indexes  # per row: 0 if unknown, below 2^31
    symbols: Sequence[str]
    files: Sequence[str]


class LineSource(Protocol):
    """Debug information of one file, ready for look-ups. Used by one thread at a time."""

    def chains(self, file_addrs: Sequence[int]) -> Chains:
        """Return the chain at each address, in columns."""
        ...

    def lookup_many(self, file_addrs: Sequence[int]) -> list[Chain]:
        """Return the chains as objects, for few addresses. Equal chains may be one object."""
        ...


def pack_chains(chains: Sequence[Chain]) -> Chains:
    """Convert the chains of some addresses to columns."""
    distinct: dict[Chain, int] = {}
    of = [distinct.setdefault(chain, len(distinct)) for chain in chains]
    symbols: dict[str, int] = {"": 0}
    files: dict[str, int] = {"": 0}
    rows = [
        (
            symbols.setdefault(frame.symbol, len(symbols)),
            files.setdefault(frame.file, len(files)),
            frame.line if frame.line < 1 << 31 else 0,
        )
        for chain in distinct
        for frame in chain
    ]
    symbol, file, line = np.array(rows or [(0, 0, 0)], np.int64).T
    count = np.array([len(chain) for chain in distinct], np.int64)
    of_address = np.array(of, np.int64)
    if () in distinct:
        of_address[of_address == distinct[()]] = -1
    first = np.cumsum(count) - count
    return Chains(of_address, first, count, symbol, file, line, list(symbols), list(files))


def unpack_chains(packed: Chains) -> list[Chain]:
    """Return the chains of all addresses as objects."""
    rows: list[tuple[int, int, int]] = list(
        zip(packed.symbol.tolist(), packed.file.tolist(), packed.line.tolist(), strict=True)
    )
    chains = [
        tuple(
            SourceFrame(packed.symbols[symbol], packed.files[file], line)
            for symbol, file, line in rows[first : first + count]
        )
        for first, count in zip(packed.first.tolist(), packed.count.tolist(), strict=True)
    ]
    return [chains[number] if number >= 0 else () for number in packed.of.tolist()]
