"""Read the line tables of Java methods as HotSpot compresses them. Pure.

A byte 0 ends a table; 0xff is followed by two signed numbers, the steps of bytecode index and line;
any other byte has both in five and three bits. Numbers have up to five bytes: one below 192 is the
last; before 20 they count from 0, since then from 1.

Source: src/hotspot/share/code/compressedStream.hpp, utilities/unsigned5.hpp;
oops/method.hpp, CompressedLineNumberReadStream.
"""

from __future__ import annotations

import bisect

_HIGH = 192
_MAX_SHIFT = 24
_MAX_LINE = 0xFFFF


class JavaLines:
    """The lines of one method.

    Args:
        raw: the table, without its end.
        number_base: the least byte of a number.
    """

    __slots__ = ("_indexes", "_lines")

    def __init__(self, raw: bytes, number_base: int) -> None:
        found: dict[int, int] = {}
        index = line = at = 0
        while at < len(raw):
            byte = raw[at]
            at += 1
            if byte == 0xFF:
                step, at = _signed(raw, at, number_base)
                index += step
                step, at = _signed(raw, at, number_base)
                line += step
            else:
                index += byte >> 3
                line += byte & 7
            if index < 0 or not 0 < line <= _MAX_LINE:
                break  # damaged
            found.setdefault(index, line)
        self._indexes = sorted(found)
        self._lines = [found[each] for each in self._indexes]

    @property
    def size(self) -> int:
        """Bytes in our memory, about."""
        return 80 * len(self._indexes)

    def line_at(self, index: int) -> int:
        """Return the line of a bytecode; 0 if there is none."""
        place = bisect.bisect_right(self._indexes, index) - 1
        return self._lines[place] if place >= 0 else 0


def _signed(raw: bytes, at: int, base: int) -> tuple[int, int]:
    """Read a signed number; return it and where the next one begins."""
    value = shift = 0
    while at < len(raw) and shift <= _MAX_SHIFT:
        byte = raw[at]
        at += 1
        value += (byte - base) << shift
        if byte < _HIGH:
            break
        shift += 6
    return (value >> 1) ^ -(value & 1), at
