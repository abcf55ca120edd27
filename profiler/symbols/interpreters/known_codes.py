"""Keep what the records of code objects stand for: one object for equal records, within limits.

What is not kept is counted, and said in one line for the user.

Used by one thread at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from ...wire.abi import CODE_PARTS
from ...wire.events import Code
from ..names.limits import Budget

_MAX_CODES = 1 << 18  # different ones; a large service has 10^5
_CODE_BYTES = 512  # of one in our memory, without its texts and lines
_LINE_TABLE = CODE_PARTS - 1  # the last part of a record

_Made = TypeVar("_Made")


class KnownCodes(Generic[_Made]):
    """What records stand for.

    Args:
        noun: what the user calls them: "functions".
        gone: what stands for one whose memory was used again before it was read.
        left_out: what stands for one that has no room.
        names: the characters of names that may be kept.
        tables: the bytes of line tables that may be kept.
    """

    def __init__(
        self, noun: str, gone: _Made, left_out: _Made, names: Budget, tables: Budget
    ) -> None:
        self._noun = noun
        self._no_code = gone
        self._no_room = left_out
        self._names = names
        self._tables = tables
        self._made: dict[Hashable, _Made] = {}
        self._gone = self._left_out = self._lineless = 0

    def get(self, code: Code, key_of: Callable[[], Hashable], make: Callable[[], _Made]) -> _Made:
        """Return what a record stands for; the same for equal keys.

        Args:
            code: the record. Only a whole one is asked for its key, or made.
            key_of: what tells it from others.
            make: makes the first one of a key.
        """
        if code.is_gone or len(code.parts) < CODE_PARTS:
            self._gone += 1
            return self._no_code
        key = key_of()
        known = self._made.get(key)
        if known is None:
            size = sum(len(part.raw) for part in code.parts[:_LINE_TABLE]) + _CODE_BYTES
            if len(self._made) >= _MAX_CODES or not self._names.take(size):
                self._left_out += 1
                return self._no_room
            known = self._made[key] = make()
        return known

    def has_room_for_lines(self, size: int) -> bool:
        """Reserve the memory of a line table, in bytes; False, and counted, if there is none."""
        has_room = self._tables.take(size)
        self._lineless += not has_room
        return has_room

    @property
    def notes(self) -> list[str]:
        """What is missing, for the user; empty if nothing is."""
        counted = (
            (self._gone, "had gone before their names could be read"),
            (self._left_out, "have no name: names take too much memory"),
            (self._lineless, "have no lines: they take too much memory"),
        )
        return [f"{count:,} {self._noun} {what}" for count, what in counted if count]
