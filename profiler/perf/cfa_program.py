"""Follow the instructions that say, for each place of a function, where its caller's registers are.

Source: DWARF 5, 6.4.2; LSB core, "Call Frame Instructions".
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from .reader import Reader

_RSP, _RIP = 7, 16  # in DWARF's numbers
_MAX_STATES = 64
# Of PLTs: rsp + 8, and 8 more from the 11th byte of each entry on, where one has pushed its index.
_PLT = bytes((0x77, 0x08, 0x80, 0x00, 0x3F, 0x1A))
_PLT_END = bytes((0x2A, 0x33, 0x24, 0x22))
_LITERAL = 0x30


@dataclass
class Row:
    """The CFA is ``base`` plus ``offset``; registers are at these distances from it.

    Registers have DWARF's numbers; -1 for a base that we do not know.
    """

    base: int = -1
    offset: int = 0
    saved: dict[int, int] = field(default_factory=dict)

    def copy(self) -> Row:
        """Return one that changes by itself."""
        return Row(self.base, self.offset, dict(self.saved))


class Shared(NamedTuple):
    """What the functions of a part of the file have in common: a CIE."""

    code_align: int
    data_align: int
    encoding: int  # of addresses
    has_more: bool  # each function's entry has data of its language
    instructions: tuple[bytes, int, int]

    @classmethod
    def read(cls, entry: Reader) -> Shared:
        """Read one, from what follows its length on.

        Raises:
            ValueError: it is damaged, or of a kind that we do not know.
        """
        if entry.unsigned(4) != 0 or entry.unsigned(1) not in (1, 3):
            raise ValueError("no CIE of a kind that we know")
        letters = ""
        while letter := entry.unsigned(1):
            letters += chr(letter)
        code_align, data_align, caller = entry.leb(), entry.signed_leb(), entry.leb()
        encoding = 0
        if caller != _RIP or letters[:1] not in ("z", ""):
            raise ValueError("a CIE of a kind that we do not know")
        if letters:
            end = entry.leb() + entry.at
            for kind in letters[1:]:
                if kind == "R":
                    encoding = entry.unsigned(1)
                elif kind == "P":
                    entry.pointer(entry.unsigned(1) & 0x0F, 0)
                elif kind == "L":
                    entry.skip(1)
            entry.skip(end - entry.at)
        return cls(
            *(code_align, data_align, encoding, bool(letters)),
            (entry.data, entry.at, entry.end),
        )


def row_at(shared: Shared, instructions: Reader, start: int, addr: int) -> Row | None:
    """Return where the caller's registers are at an address; None if that is not known.

    Args:
        shared: the function's CIE.
        instructions: those of its FDE.
        start: where it begins.
        addr: an address in it.

    Raises:
        ValueError: they are damaged.
    """
    first = Row()
    _Program(shared, Row(), start, start).run(Reader(*shared.instructions), first)
    row = first.copy()
    _Program(shared, first, start, addr).run(instructions, row)
    return row if row.base >= 0 else None


class _Program:
    """Runs instructions up to an address."""

    def __init__(self, shared: Shared, first: Row, start: int, addr: int) -> None:
        self._shared, self._first, self._place, self._addr = shared, first, start, addr

    def run(self, reader: Reader, row: Row) -> None:
        """Change a row as the instructions say."""
        kept: list[Row] = []
        data_align = self._shared.data_align
        while reader:
            code = reader.unsigned(1)
            high, low = code & 0xC0, code & 0x3F
            if high == 0x40 or code in (0x01, 0x02, 0x03, 0x04):  # advance_loc, set_loc
                self._advance(code, low, reader)
                if self._place > self._addr:
                    return
            elif high == 0x80:  # offset
                row.saved[low] = reader.leb() * data_align
            elif high == 0xC0:
                self._restore(low, row)
            elif code == 0x05:  # offset_extended
                register = reader.leb()
                row.saved[register] = reader.leb() * data_align
            elif code == 0x06:
                self._restore(reader.leb(), row)
            elif code in (0x07, 0x08):  # undefined, same_value
                row.saved.pop(reader.leb(), None)
            elif code == 0x09:  # register: in another one
                row.saved.pop(reader.leb(), None)
                reader.leb()
            elif code == 0x0A and len(kept) < _MAX_STATES:
                kept.append(row.copy())
            elif code == 0x0B and kept:
                before = kept.pop()
                row.base, row.offset, row.saved = before.base, before.offset, before.saved
            elif code == 0x0C:  # def_cfa
                row.base, row.offset = reader.leb(), reader.leb()
            elif code == 0x0D:
                row.base = reader.leb()
            elif code == 0x0E:
                row.offset = reader.leb()
            elif code == 0x0F:  # def_cfa_expression
                row.base, row.offset = self._of_expression(reader.take(reader.leb()))
            elif code in (0x10, 0x16):  # expression, val_expression: other than in the frame
                row.saved.pop(reader.leb(), None)
                reader.skip(reader.leb())
            elif code in (0x11, 0x2F):  # offset_extended_sf, GNU_negative_offset_extended
                register = reader.leb()
                distance = reader.signed_leb() if code == 0x11 else -reader.leb()
                row.saved[register] = distance * data_align
            elif code == 0x12:
                row.base, row.offset = reader.leb(), reader.signed_leb() * data_align
            elif code == 0x13:
                row.offset = reader.signed_leb() * data_align
            elif code in (0x14, 0x15):  # val_offset: the value itself, not in memory
                row.saved.pop(reader.leb(), None)
                reader.leb()
            elif code == 0x2E:  # GNU_args_size
                reader.leb()
            elif code:
                raise ValueError("an instruction that we do not know")

    def _advance(self, code: int, low: int, reader: Reader) -> None:
        if code == 0x01:
            self._place = reader.pointer(self._shared.encoding, self._place)
            return
        steps = low if code & 0xC0 else reader.unsigned(1 << code - 2)
        self._place += steps * self._shared.code_align

    def _restore(self, register: int, row: Row) -> None:
        if register in self._first.saved:
            row.saved[register] = self._first.saved[register]
        else:
            row.saved.pop(register, None)

    def _of_expression(self, expression: bytes) -> tuple[int, int]:
        first, limit = expression[: len(_PLT)], expression[len(_PLT) : -len(_PLT_END)]
        if first != _PLT or expression[-len(_PLT_END) :] != _PLT_END or len(limit) != 1:
            return -1, 0
        return _RSP, 8 + 8 * ((self._addr & 15) >= limit[0] - _LITERAL)
