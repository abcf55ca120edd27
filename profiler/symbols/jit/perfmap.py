"""Read perf maps: text files in which a runtime lists its generated code, one piece per line.

    START SIZE NAME        START and SIZE in hexadecimal, with or without 0x; NAME may hold spaces

The runtime appends lines while it generates code. Where lines overlap, the later one is valid. A
line is complete once its newline is written. Some runtimes rewrite the whole file on request.

We keep only numbers, 32 bytes a line. A name is read from the file when it is needed, and used only
if its line is still the same.

Source: tools/perf/Documentation/jit-interface.txt in the Linux sources.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from .code_ranges import CodeRanges, Int64s, Ranges
from .code_reader import FileReader
from .growing_file import AppendedFile, Growth

CHUNK_BYTES = 1 << 20
# Only this many bytes at the end of a longer map are read. node writes 150 KB when it starts.
MAX_MAP_BYTES = 512 << 20
MAX_NAME_BYTES = 4096
# No function is so long; a line that claims it would hide all others.
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
# Two numbers with 0x, their separators, and one more character.
_PADDING = np.full(2 * (_MAX_DIGITS + 2) + 4, _NEWLINE, np.uint8)

Bytes = npt.NDArray[np.uint8]


class Lines(NamedTuple):
    """Lines in columns."""

    start: npt.NDArray[np.uint64]
    size: npt.NDArray[np.uint64]
    offset: Int64s  # start of the line in the text
    garbage: int  # number of invalid lines


class PerfMap(FileReader):
    """The names in one perf map, as far as it is written.

    Attributes:
        garbage: number of invalid lines.
        skipped_bytes: bytes skipped at the start of a map that is too long.
    """

    kind = "perf map"

    def __init__(self, file: AppendedFile) -> None:
        super().__init__(file)
        self.garbage = 0
        self.skipped_bytes = 0
        self._in_long_line = False

    def look(self) -> Growth:
        """Check whether the file has grown. If it was rewritten, discard what was read."""
        growth = self.file.look()
        if growth is Growth.ANEW:
            self.garbage = self.skipped_bytes = 0
            self._ranges = CodeRanges()
            self._in_long_line = False
        return growth

    def read_more(self) -> bool:
        """Read the next lines; return False if no complete line is left."""
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
            return False  # the newline is not written yet
        self.file.go_on_at(begin + len(text))
        return bool(text)

    def name(self, key: int, start: int) -> str:
        """Return the name for a key; ``""`` if its line has changed.

        Args:
            key: a key from :meth:`find`.
            start: the start of its range.
        """
        line = self.file.read_at(key, MAX_NAME_BYTES)
        fields = line.partition(b"\n")[0].split(None, 2)
        try:
            if len(fields) == 3 and int(fields[0], 16) == start:
                return fields[2].decode("utf-8", "replace")
        except ValueError:
            pass
        return ""

    def _notes_on_content(self) -> Iterator[str]:
        if self.garbage:
            yield f"{self.garbage:,} lines of {self.file.path} are invalid"
        if self.skipped_bytes:
            yield f"the first {self.skipped_bytes >> 20} MiB of {self.file.path} are left out"


def parse_lines(text: bytes) -> Lines:
    """Parse a text that ends in a newline. Empty lines also count as garbage."""
    characters = np.concatenate((np.frombuffer(text, np.uint8), _PADDING))
    ends = np.flatnonzero(characters[: len(text)] == _NEWLINE)
    begins = np.concatenate((np.zeros(1, ends.dtype), ends[:-1] + 1))
    start, at, good = _parse_hexadecimal(characters, begins)
    good &= characters[at] == _SPACE
    size, at, is_number = _parse_hexadecimal(characters, at + 1)
    good &= is_number & (characters[at] == _SPACE) & (at + 1 < ends)
    good &= (start < _MAX_ADDRESS) & (size < _MAX_CODE_BYTES)
    garbage = len(ends) - int(np.count_nonzero(good))
    # Lines with size 0 are valid, but cover no address.
    good &= size > 0
    return Lines(start[good], size[good], begins[good].astype(np.int64), garbage)


def _parse_hexadecimal(
    characters: Bytes, at: npt.NDArray[np.intp]
) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.intp], npt.NDArray[np.bool_]]:
    """Parse numbers that begin at some positions.

    Return their values, the positions after them, and whether each is a number of at most 16
    digits.
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
