"""What any source of lines and inlined functions gives: chains of source frames."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

# Stands for the function of code that has lines and that no function of the debug information
# claims.
UNCLAIMED = "?"


class LinesError(Exception):
    """Lines and inlined functions cannot be had; the message is one line for the user."""


class SourceFrame(NamedTuple):
    """One function of an inline chain and the place in it."""

    symbol: str  # mangled where DWARF has a linkage name
    file: str  # "" if not known
    line: int  # 0 if not known


# Outermost function first; empty where nothing is known.
Chain = tuple[SourceFrame, ...]


class LineSource(Protocol):
    """Debug information of one file, ready for look-ups. Used by one thread at a time."""

    def lookup_many(self, file_addrs: Sequence[int]) -> list[Chain]:
        """The chain at each address. Equal chains may be one object."""
        ...
