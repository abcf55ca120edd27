"""Read the line tables of code objects: position → line.

Three formats: ``co_lnotab`` (3.8, 3.9), ``co_linetable`` (3.10), and the location table since 3.11.
A position counts code units of 2 bytes. Some code has no line of its own (the start of a generator,
cleaning up after ``with``): there the nearest line before counts. A table may be damaged or cut;
what was read of it is used, and positions beyond have no line.

Source: Objects/lnotab_notes.txt; InternalDocs/code_objects.md, "Source code locations".
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterator

from ....wire.abi import NO_POSITION

_UNIT_BYTES = 2
_NO_LINE_10 = -128
# Codes of an entry since 3.11.
_SHORT_END, _ONE_LINE, _NO_COLUMNS, _LONG, _NO_LOCATION = 9, 10, 13, 14, 15
_MAX_SHIFT = 42  # of a varint: seven pieces of 6 bits are more than any line
_MAX_LINE = 1 << 31

# Start in units, and the line from there on: None for no line of its own.
_Entry = tuple[int, "int | None"]


class LineTable:
    """The lines of one code object.

    Args:
        version: (3, 12), for example; decides the format.
        raw: the table.
        first_line: of the code object.
        is_cut: True if the table is longer than ``raw``.
    """

    def __init__(
        self, version: tuple[int, int], raw: bytes, first_line: int, is_cut: bool = False
    ) -> None:
        self.first_line = first_line if 0 <= first_line < _MAX_LINE else 0
        self._starts = array("l")
        self._lines = array("l")
        read: Callable[[bytes, int], Iterator[_Entry]] = (
            _read_11 if version >= (3, 11) else _read_10 if version >= (3, 10) else _read_8
        )
        line = self.first_line
        self._end = 0  # 0: the last line holds for all that follows
        for start, own in read(raw, self.first_line):
            self._end = start if is_cut else 0
            line = own if own is not None and 0 <= own < _MAX_LINE else line
            if not self._lines or line != self._lines[-1]:
                self._starts.append(start)
                self._lines.append(line)

    def line_at(self, position: int) -> int:
        """Return the line at a position; 0 if it is unknown.

        Args:
            position: in code units, or ``NO_POSITION`` for code that has not begun.
        """
        if position == NO_POSITION:
            return self.first_line
        if self._end and position >= self._end:
            return 0
        index = bisect_right(self._starts, position) - 1
        return self._lines[index] if index >= 0 else self.first_line

    @property
    def size(self) -> int:
        """The bytes that it takes in memory."""
        return len(self._starts) * self._starts.itemsize * 2


def _read_8(raw: bytes, first_line: int) -> Iterator[_Entry]:
    """Yield the entries of 3.8 and 3.9: pairs of steps, of the address and of the line."""
    addr, line = 0, first_line
    for index in range(0, len(raw) - 1, 2):
        if raw[index]:
            yield addr // _UNIT_BYTES, line
            addr += raw[index]
        line += _signed(raw[index + 1])
    yield addr // _UNIT_BYTES, line


def _read_10(raw: bytes, first_line: int) -> Iterator[_Entry]:
    """Yield the entries of 3.10: pairs of a length in bytes and a step of the line before it."""
    addr, line = 0, first_line
    for index in range(0, len(raw) - 1, 2):
        step = _signed(raw[index + 1])
        has_line = step != _NO_LINE_10
        line += step if has_line else 0
        if raw[index]:
            yield addr // _UNIT_BYTES, line if has_line else None
            addr += raw[index]
    yield addr // _UNIT_BYTES, None


def _read_11(raw: bytes, first_line: int) -> Iterator[_Entry]:
    """Yield the entries since 3.11: a code, a length in units, and a step in one of five forms."""
    start, line, index = 0, first_line, 0
    while index < len(raw):
        code, units = raw[index] >> 3 & 15, (raw[index] & 7) + 1
        index += 1
        own: int | None
        if code <= _SHORT_END:
            index += 1
        elif code < _NO_COLUMNS:
            line += code - _ONE_LINE
            index += 2
        elif code != _NO_LOCATION:
            step, index = _varint(raw, index)
            line += -(step >> 1) if step & 1 else step >> 1
            for _ in range(3 if code == _LONG else 0):
                _, index = _varint(raw, index)
        own = None if code == _NO_LOCATION else line
        if index > len(raw):
            break  # the last entry is cut
        yield start, own
        start += units
    yield start, None


def _varint(raw: bytes, index: int) -> tuple[int, int]:
    """Return a number in pieces of 6 bits, the lowest first, and the index behind it."""
    number = shift = 0
    while index < len(raw) and shift <= _MAX_SHIFT:
        number |= (raw[index] & 63) << shift
        shift += 6
        index += 1
        if not raw[index - 1] & 64:
            return number, index
    return 0, len(raw) + 1


def _signed(byte: int) -> int:
    return byte - 256 if byte > 127 else byte
