"""Perf maps: text files in which a runtime lists the code that it makes, a line for each piece.

    START SIZE NAME        START and SIZE in hexadecimal, with or without 0x; NAME may hold spaces

Lines are appended while code is made; a later line holds where it overlaps an earlier one. A line
is taken when its newline is there. Some runtimes write the whole file anew when asked to.

Only numbers are kept, 32 bytes a line; a name is read from the file when it is wanted, and taken
only if its line still says what it said.

Source: tools/perf/Documentation/jit-interface.txt in the Linux sources.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from .code_ranges import CodeRanges, Found, Int64s, Ranges
from .growing_file import AppendedFile, Growth

CHUNK_BYTES = 1 << 20
# Of a map longer than that only the end is read; node's grow by 150 KB at the start.
MAX_MAP_BYTES = 512 << 20
MAX_NAME_BYTES = 4096
# No function is that long; a line that says so would stand in the way of all others.
_MAX_CODE_BYTES = 1 << 30
_MAX_ADDRESS = (1 << 63) - _MAX_CODE_BYTES

_NEWLINE, _SPACE, _ZERO, _X = b"\n 0x"
_NO_DIGIT = 16
_DIGITS = np.full(256, _NO_DIGIT, np.uint8)
for _i, _digits in enumerate((b"0", b"1", b"2", b"3", b"4", b"5", b"6", b"7", b"8", b"9")):
    _DIGITS[_digits[0]] = _i
for _i, _digits in enumerate((b"aA", b"bB", b"cC", b"dD", b"eE", b"fF"), 10):
    _DIGITS[list(_digits)] = _i
_MAX_DIGITS = 16
# Two numbers with 0x, what separates them, and one character more.
_PADDING = np.full(2 * (_MAX_DIGITS + 2) + 4, _NEWLINE, np.uint8)

Bytes = npt.NDArray[np.uint8]


class Lines(NamedTuple):
    """Lines in columns."""

    start: npt.NDArray[np.uint64]
    size: npt.NDArray[np.uint64]
    offset: Int64s  # where the line begins in the text
    garbage: int  # how many other lines there are


class PerfMap:
    """The names in one perf map, as far as it is written.

    Attributes:
        garbage: lines that make no sense.
        skipped_bytes: at the start of a map that is too long.
    """

    kind = "perf map"
    has_lines = False

    def __init__(self, file: AppendedFile) -> None:
        self.file = file
        self.garbage = 0
        self.skipped_bytes = 0
        self._ranges = CodeRanges()
        self._in_long_line = False

    def __len__(self) -> int:
        return len(self._ranges)

    @property
    def dropped(self) -> int:
        """Lines given up because there are too many."""
        return self._ranges.dropped

    def look(self) -> Growth:
        """Has it grown? When it was written anew, what was read is forgotten."""
        growth = self.file.look()
        if growth is Growth.ANEW:
            self.garbage = self.skipped_bytes = 0
            self._ranges = CodeRanges()
            self._in_long_line = False
        return growth

    def read_more(self) -> bool:
        """Take the next lines; False when there are none that are whole."""
        surplus = self.file.unread - MAX_MAP_BYTES
        if surplus > 0:
            self.skipped_bytes += surplus
            self.file.go_on_at(self.file.position + surplus)
            self._in_long_line = True
        begin = self.file.position
        text = self.file.read_at(begin, min(self.file.unread, CHUNK_BYTES))
        if self._in_long_line:
            end = text.find(b"\n") + 1
            self._in_long_line = not end
            text = text[: end or len(text)]
        elif end := text.rfind(b"\n") + 1:
            text = text[:end]
            lines = parse_lines(text)
            self.garbage += lines.garbage
            offset = lines.offset + begin
            self._ranges.add(Ranges(lines.start, lines.start + lines.size, offset, None))
        elif len(text) == CHUNK_BYTES:
            self.garbage += 1
            self._in_long_line = True
        else:
            return False  # its newline is still to come
        self.file.go_on_at(begin + len(text))
        return bool(text)

    def find(self, addresses: npt.NDArray[np.uint64], seen_ns: Int64s) -> Found:
        """The key of what is at each address; when it was made is not known."""
        return self._ranges.find(addresses, seen_ns)

    def name(self, key: int, start: int) -> str:
        """The name of a key that was found, with the start of its range; ``""`` if its line is not
        there any more.
        """
        line = self.file.read_at(key, MAX_NAME_BYTES)
        fields = line.partition(b"\n")[0].split(None, 2)
        try:
            if len(fields) == 3 and int(fields[0], 16) == start:
                return fields[2].decode("utf-8", "replace")
        except ValueError:
            pass
        return ""


def parse_lines(text: bytes) -> Lines:
    """The lines of a text that ends in a newline; empty ones count as garbage as well."""
    characters = np.concatenate((np.frombuffer(text, np.uint8), _PADDING))
    ends = np.flatnonzero(characters[: len(text)] == _NEWLINE)
    begins = np.concatenate((np.zeros(1, ends.dtype), ends[:-1] + 1))
    start, at, good = _parse_hexadecimal(characters, begins)
    good &= characters[at] == _SPACE
    size, at, is_number = _parse_hexadecimal(characters, at + 1)
    good &= is_number & (characters[at] == _SPACE) & (at + 1 < ends)
    good &= (start < _MAX_ADDRESS) & (size < _MAX_CODE_BYTES)
    garbage = len(ends) - int(np.count_nonzero(good))
    # A piece without a size is known, and covers nothing.
    good &= size > 0
    return Lines(start[good], size[good], begins[good].astype(np.int64), garbage)


def _parse_hexadecimal(
    characters: Bytes, at: npt.NDArray[np.intp]
) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.intp], npt.NDArray[np.bool_]]:
    """Numbers that begin at some places: their values, where they end, and whether they are
    numbers of 16 digits at the most.
    """
    has_prefix = (characters[at] == _ZERO) & (characters[at + 1] | 0x20 == _X)
    first = at + 2 * has_prefix
    at = first.copy()
    value = np.zeros(len(at), np.uint64)
    going_on = np.ones(len(at), bool)
    for _ in range(_MAX_DIGITS):
        digit = _DIGITS[characters[at]]
        going_on &= digit < _NO_DIGIT
        if not going_on.any():
            break
        value = np.where(going_on, value << np.uint64(4) | digit, value)
        at += going_on
    return value, at, at > first
