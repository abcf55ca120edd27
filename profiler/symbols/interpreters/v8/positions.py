"""Read tables that lead from code to places in the source. Pure.

A table is a row of entries of two numbers: how much further the code is, and the source. Numbers
are seven bits a byte, the last byte without the highest bit. Differences with a sign have it in the
lowest bit. Bounded by the table's own size.

Source: src/codegen/source-position-table.{h,cc}, source-position.h;
src/baseline/bytecode-offset-iterator.h.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

_MAX_NUMBER_BYTES = 9
_OFFSET_MASK, _ID_MASK, _ID_SHIFT = (1 << 30) - 1, 0xFFFF, 31
_WIDE, _EXTRA_WIDE = (0, 2), (1, 3)  # bytecodes that make the next one's operands wider


class Position(NamedTuple):
    """A place in the source."""

    offset: int  # in characters; -1 if unknown
    inlining: int  # 1 …: which inlined call it is in; 0: none

    @classmethod
    def of(cls, word: int) -> Position:
        """Return the position that a word of the engine is."""
        offset = (word >> 1 & _OFFSET_MASK) - 1 if not word & 1 else -1
        return cls(offset, word >> _ID_SHIFT & _ID_MASK)


class PositionTable:
    """The places of the source that code comes from.

    Args:
        raw: the table.
        has_flags: the lowest two bits of a code offset are flags (V8 14).
    """

    def __init__(self, raw: bytes, *, has_flags: bool) -> None:
        numbers = numbers_of(raw)
        count = len(numbers) // 2
        code, source = numbers[0 : 2 * count : 2], numbers[1 : 2 * count : 2]
        if has_flags:
            steps = code >> 2
        else:
            signed = _signed(code)
            steps = np.where(signed >= 0, signed, -signed - 1)
        self._code = np.cumsum(steps) - 1
        self._source = np.cumsum(_signed(source))

    @property
    def size(self) -> int:
        """The bytes that it takes."""
        return int(self._code.nbytes + self._source.nbytes)

    def at(self, offset: int) -> Position:
        """Return the place of the code at an offset: that of the last entry not behind it."""
        index = int(np.searchsorted(self._code, offset, "right")) - 1
        return Position(-1, 0) if index < 0 else Position.of(int(self._source[index]))


def numbers_of(raw: bytes) -> npt.NDArray[np.int64]:
    """Return the numbers of a table, without signs; a number without an end is left out."""
    data = np.frombuffer(raw, np.uint8)
    ends = np.flatnonzero(data < 128)
    if not len(ends):
        return np.zeros(0, np.int64)
    data = data[: ends[-1] + 1]
    starts = np.concatenate(([0], ends[:-1] + 1))
    if int((ends - starts).max()) >= _MAX_NUMBER_BYTES:
        return np.zeros(0, np.int64)  # no such table
    place = np.arange(len(data)) - np.repeat(starts, ends - starts + 1)
    found: npt.NDArray[np.int64] = np.add.reduceat(
        (data & 127).astype(np.int64) << 7 * place, starts
    )
    return found


def _signed(numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    return (numbers >> 1) ^ -(numbers & 1)


class BytecodeOffsets:
    """Where each bytecode of a function begins in its baseline code.

    Args:
        raw: the table: bytes of machine code for each bytecode, and for what comes before all.
        bytecode: the function's bytecode.
        lengths: of each bytecode with its operands, for the three widths of operands.
    """

    def __init__(self, raw: bytes, bytecode: bytes, lengths: bytes) -> None:
        self._ends = np.cumsum(numbers_of(raw))
        starts: list[int] = []
        count = len(lengths) // 3
        at = 0
        while at < len(bytecode) and len(starts) < len(self._ends):
            starts.append(at)
            operation, row, prefix = bytecode[at], 0, 0
            if operation in (*_WIDE, *_EXTRA_WIDE) and at + 1 < len(bytecode):
                row, prefix, operation = 1 if operation in _WIDE else 2, 1, bytecode[at + 1]
            if operation >= count:
                break
            at += prefix + max(lengths[row * count + operation], 1)
        self._starts = starts

    def at(self, offset: int) -> int:
        """Return the offset of the bytecode that the code at an offset is for.

        -1 for what comes before all, and if it is not known.
        """
        index = int(np.searchsorted(self._ends, offset, "right")) - 1
        return self._starts[index] if 0 <= index < len(self._starts) else -1
