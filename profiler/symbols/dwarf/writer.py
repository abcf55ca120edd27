"""Write functions and inlined functions as plain DWARF 4 in a small ELF file.

All references are resolved: names are stored directly, and ranges as addresses. Line tables are
copied unchanged, with the texts to which they refer. So the reader that makes symcaches need not
know dwz, split units or address tables.

Source: DWARF 4, sections 7.5 and 2.17.3; System V ABI, "Object Files".
"""

from __future__ import annotations

import struct

from ...linux.elf_headers import (
    HEADER,
    MAGIC,
    PF_R,
    PF_X,
    PROGRAM_HEADER,
    PT_LOAD,
    SECTION_HEADER,
    SHT_PROGBITS,
    SHT_STRTAB,
)
from ...recording.names.inline_chains import UNCLAIMED
from . import constants as dw
from .attributes import DwarfError, Values

# Deeper than any compiler inlines. The reader of the result uses recursion.
MAX_DEPTH = 200
_MAX_SECTION_BYTES = (1 << 32) - 1
# A gap between two functions that contains no multiple of this only aligns the second one.
_ALIGNMENT = 16

_COMPILE_UNIT, _FUNCTION, _FUNCTION_RANGES, _INLINED, _INLINED_RANGES = 1, 2, 3, 4, 5
_WITHOUT_LINES = 6  # a unit without a line table
_EXTENT = ((dw.AT_LOW_PC, dw.FORM_ADDR), (dw.AT_HIGH_PC, dw.FORM_DATA8))
_LIST = ((dw.AT_RANGES, dw.FORM_SEC_OFFSET),)
_NAME = ((dw.AT_LINKAGE_NAME, dw.FORM_STRP),)
_CALL = ((dw.AT_CALL_FILE, dw.FORM_DATA4), (dw.AT_CALL_LINE, dw.FORM_DATA4))
_UNIT = (
    (dw.AT_NAME, dw.FORM_STRP),
    (dw.AT_COMP_DIR, dw.FORM_STRP),
    (dw.AT_LOW_PC, dw.FORM_ADDR),
    (dw.AT_RANGES, dw.FORM_SEC_OFFSET),
)
_ABBREVIATIONS = (
    (_COMPILE_UNIT, dw.TAG_COMPILE_UNIT, (*_UNIT, (dw.AT_STMT_LIST, dw.FORM_SEC_OFFSET))),
    (_WITHOUT_LINES, dw.TAG_COMPILE_UNIT, _UNIT),
    (_FUNCTION, dw.TAG_SUBPROGRAM, _NAME + _EXTENT),
    (_FUNCTION_RANGES, dw.TAG_SUBPROGRAM, _NAME + _LIST),
    (_INLINED, dw.TAG_INLINED, _NAME + _CALL + _EXTENT),
    (_INLINED_RANGES, dw.TAG_INLINED, _NAME + _CALL + _LIST),
)
_UNIT_HEADER = struct.Struct("<IHIB")  # length, version, abbreviations, address size
_ROOT = struct.Struct("<BIIQI")
_PAIR = struct.Struct("<QQ")
_ANYWHERE = _PAIR.pack(1, (1 << 63) - 1) + _PAIR.pack(0, 0)


class Writer:
    """Collects units and their functions; a :class:`~functions.Sink`.

    Args:
        strings: the ``.debug_str`` to which the line tables refer.
    """

    def __init__(self, strings: bytes) -> None:
        self._info = bytearray()
        self._ranges = bytearray(_ANYWHERE)
        self._strings = bytearray(strings)
        if strings and strings[-1]:
            self._strings.append(0)
        self._string_offsets: dict[bytes, int] = {}
        self._unit_start = 0
        self._claimed: list[tuple[int, int]] = []
        self._depth = 0
        self._dropped = 0  # number of open functions that are not written

    def begin_unit(self, name: bytes, comp_dir: bytes, line_table: int | None) -> None:
        """Begin a unit; ``line_table`` is an offset of ``.debug_line``, or None."""
        self._unit_start = len(self._info)
        self._claimed = []
        self._depth = self._dropped = 0
        self._info += bytes(_UNIT_HEADER.size)
        texts = (self._string(name), self._string(comp_dir))
        code = _WITHOUT_LINES if line_table is None else _COMPILE_UNIT
        self._info += _ROOT.pack(code, *texts, 0, 0)
        if line_table is not None:
            self._info += line_table.to_bytes(4, "little")

    def end_unit(self, extent: list[tuple[int, int]]) -> None:
        """End the unit. Its code that no function covers becomes an unnamed function."""
        while self._depth:
            self.end()
        self._dropped = 0
        for gap in _gaps(extent, self._claimed):
            self.function(UNCLAIMED.encode(), [gap])
            self.end()
        if not self._claimed:
            del self._info[self._unit_start :]
            return
        self._info.append(0)
        length = len(self._info) - self._unit_start - 4
        if len(self._info) > _MAX_SECTION_BYTES:
            raise DwarfError("too much debug information")
        _UNIT_HEADER.pack_into(self._info, self._unit_start, length, 4, 0, 8)

    def function(self, name: bytes, ranges: list[tuple[int, int]]) -> None:
        """Begin a function."""
        self._claimed += ranges
        self._entry(_FUNCTION, name, b"", ranges)

    def inlined(self, name: bytes, ranges: list[tuple[int, int]], file: int, line: int) -> None:
        """Begin an inlined function."""
        place = struct.pack("<II", file & 0xFFFFFFFF, line & 0xFFFFFFFF)
        self._entry(_INLINED, name, place, ranges)

    def end(self) -> None:
        """End the function that was begun last."""
        if self._dropped:
            self._dropped -= 1
        elif self._depth:
            self._depth -= 1
            self._info.append(0)

    def elf(self, machine: int, base_addr: int, line: bytes, line_strings: bytes) -> bytes:
        """Return the whole file, with these line tables.

        Args:
            machine: ``e_machine`` of the program.
            base_addr: its lowest loaded file_addr.
            line: ``.debug_line``.
            line_strings: ``.debug_line_str``.
        """
        return _elf(
            machine,
            base_addr,
            {
                ".debug_info": bytes(self._info),
                ".debug_abbrev": _abbreviation_section(),
                ".debug_str": bytes(self._strings),
                ".debug_line": line,
                ".debug_line_str": line_strings,
                ".debug_ranges": bytes(self._ranges),
            },
        )

    def _entry(self, kind: int, name: bytes, place: bytes, ranges: list[tuple[int, int]]) -> None:
        has_parent = self._depth > 0 or kind == _FUNCTION
        if self._dropped or self._depth >= MAX_DEPTH or not has_parent:
            self._dropped += 1
            return
        self._depth += 1
        code = kind if len(ranges) == 1 else kind + 1
        self._info += struct.pack("<BI", code, self._string(name)) + place
        if len(ranges) == 1:
            start, end = ranges[0]
            self._info += _PAIR.pack(start, end - start)
        else:
            self._info += len(self._ranges).to_bytes(4, "little")
            for pair in ranges:
                self._ranges += _PAIR.pack(*pair)
            self._ranges += bytes(_PAIR.size)
            if len(self._ranges) > _MAX_SECTION_BYTES:
                raise DwarfError("too many ranges")

    def _string(self, text: bytes) -> int:
        offset = self._string_offsets.get(text)
        if offset is None:
            offset = self._string_offsets[text] = len(self._strings)
            self._strings += text + b"\0"
            if len(self._strings) > _MAX_SECTION_BYTES:
                raise DwarfError("too many names")
        return offset


def line_table_of(line: bytes, values: Values) -> int | None:
    """Return the offset of a unit's line table; ``None`` if there is no valid one."""
    offset = values.get(dw.AT_STMT_LIST, (0, None))[1]
    if not isinstance(offset, int) or offset + 12 > min(len(line), 1 << 32):
        return None
    length, start = int.from_bytes(line[offset : offset + 4], "little"), offset + 4
    if length == 0xFFFFFFFF:
        length, start = int.from_bytes(line[offset + 4 : offset + 12], "little"), offset + 12
    version = int.from_bytes(line[start : start + 2], "little")
    return offset if 2 <= version <= 5 and start + length <= len(line) else None


def _gaps(extent: list[tuple[int, int]], claimed: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the parts of ``extent`` that are in no range of ``claimed``."""
    gaps = []
    taken = sorted(claimed)
    index = 0
    for start, end in sorted(extent):
        while index < len(taken) and taken[index][1] <= start:
            index += 1
        look = index
        while start < end:
            until = min(end, taken[look][0]) if look < len(taken) else end
            if start + -start % _ALIGNMENT < until:
                gaps.append((start, until))
            if look >= len(taken) or taken[look][0] >= end:
                break
            start = max(start, taken[look][1])
            look += 1
    return gaps


def _abbreviation_section() -> bytes:
    data = bytearray()
    for code, tag, attributes in _ABBREVIATIONS:
        data += bytes((code, tag, 1))
        for attribute, form in (*attributes, (0, 0)):
            data += bytes((attribute, form))
    return bytes(data) + b"\0"


def _elf(machine: int, base_addr: int, sections: dict[str, bytes]) -> bytes:
    names = b"\0" + b"".join(name.encode() + b"\0" for name in (*sections, ".shstrtab"))
    contents = {**sections, ".shstrtab": names}
    place = HEADER.size + PROGRAM_HEADER.size
    table = [bytes(SECTION_HEADER.size)]
    for name, data in contents.items():
        kind = SHT_STRTAB if name == ".shstrtab" else SHT_PROGBITS
        at = names.index(b"\0" + name.encode() + b"\0") + 1
        table.append(SECTION_HEADER.pack(at, kind, 0, 0, place, len(data), 0, 0, 1, 0))
        place += len(data)
    ident = (MAGIC + b"\x02\x01\x01").ljust(16, b"\0")
    header = HEADER.pack(
        *(ident, 3, machine, 1, 0, HEADER.size, place, 0),  # ET_DYN
        *(HEADER.size, PROGRAM_HEADER.size, 1),
        *(SECTION_HEADER.size, len(table), len(table) - 1),
    )
    # Addresses in symcaches are relative to the segment's.
    segment = PROGRAM_HEADER.pack(PT_LOAD, PF_R | PF_X, 0, base_addr, base_addr, 0, 1 << 32, 4096)
    return b"".join((header, segment, *contents.values(), *table))
