"""Parse the units of one file's DWARF, and interpret the values of their entries.

Many values are references: into tables of texts, addresses and ranges of the same file, of dwz's
common file or, for split units, of the program to which they belong.

Source: DWARF 5, sections 7.5.1 (unit headers), 7.25-7.29 (tables), 7.3.2 (split units).
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from functools import cached_property

from . import constants as dw
from .attributes import (
    Abbreviation,
    Abbreviations,
    DwarfError,
    Value,
    Values,
    parse_abbreviations,
    read_entry,
    text_at,
    uleb,
)

_ADDRESS_SIZE = 8
# How many times .debug_abbrev may be parsed: once for each version and format of the units.
_OVERLAP = 8
_HIGHEST = 1 << 63  # addresses from here on mark code that the linker removed


@dataclass(eq=False)
class DwarfFile:
    """The sections of one file.

    ``alt`` is dwz's common file. ``names`` is a cache for readers: the linkage and plain names of
    functions, by offset.
    """

    info: bytes = b""
    abbrev: bytes = b""
    strings: bytes = b""
    line_strings: bytes = b""
    str_offsets: bytes = b""
    addresses: bytes = b""
    ranges: bytes = b""
    rnglists: bytes = b""
    alt: DwarfFile | None = None
    names: dict[int, tuple[bytes, bytes]] = field(default_factory=dict)
    _tables: dict[tuple[int, int, int], Abbreviations] = field(default_factory=dict)
    _parsed_bytes: int = 0

    @cached_property
    def units(self) -> list[Unit]:
        """All units with 64-bit addresses, in the order of the section.

        Raises:
            DwarfError: a header is damaged.
        """
        units = []
        offset = 0
        while offset + 12 <= len(self.info):
            unit, offset = _parse_header(self, offset)
            if unit is not None:
                units.append(unit)
        return units

    def unit_at(self, offset: int) -> Unit:
        """Return the unit that covers an offset of ``.debug_info``.

        Raises:
            DwarfError: there is none.
        """
        index = bisect_right(self._starts, offset) - 1
        if index < 0 or not self.units[index].first <= offset < self.units[index].end:
            raise DwarfError("a reference to nowhere")
        return self.units[index]

    def table(self, offset: int, version: int, offset_size: int) -> Abbreviations:
        """Return a table of abbreviations; each is parsed once."""
        key = (offset, version, offset_size)
        table = self._tables.get(key)
        if table is None:
            table, end = parse_abbreviations(self.abbrev, offset, version, offset_size)
            self._tables[key] = table
            self._parsed_bytes += end - offset
            if self._parsed_bytes > _OVERLAP * len(self.abbrev):
                raise DwarfError("its tables of abbreviations overlap")
        return table

    @cached_property
    def _starts(self) -> list[int]:
        return [unit.offset for unit in self.units]


@dataclass(eq=False)
class Unit:
    """One unit. Offsets are those of ``.debug_info``; ``first`` is that of its root entry."""

    file: DwarfFile
    offset: int
    end: int
    first: int
    version: int
    offset_size: int
    kind: int
    abbrev_offset: int
    dwo_id: int | None = None
    # For a split unit, the tables that are in the program: set by ``attach``.
    program: DwarfFile | None = None
    low_pc: int = 0
    addr_base: int = 0
    ranges_base: int = 0

    @cached_property
    def abbreviations(self) -> Abbreviations:
        """The abbreviations of its entries by code."""
        return self.file.table(self.abbrev_offset, self.version, self.offset_size)

    def entry(self, offset: int) -> tuple[Abbreviation, Values, int]:
        """Return one entry and its end.

        Raises:
            DwarfError, IndexError: there is none.
        """
        code, offset = uleb(self.file.info, offset)
        abbreviation = self.abbreviations.get(code)
        if abbreviation is None:
            raise DwarfError("an entry of an unknown kind")
        values, offset = read_entry(
            self.file.info, offset, abbreviation.steps, self.version, self.offset_size
        )
        return abbreviation, values, offset

    @cached_property
    def root(self) -> tuple[Abbreviation, Values]:
        """The root entry, which describes the unit itself."""
        abbreviation, values, _ = self.entry(self.first)
        base = values.get(dw.AT_ADDR_BASE) or values.get(dw.AT_GNU_ADDR_BASE)
        if base is not None and isinstance(base[1], int):
            self.addr_base = base[1]
        dwo_id = values.get(dw.AT_GNU_DWO_ID)
        if dwo_id is not None and isinstance(dwo_id[1], int):
            self.dwo_id = dwo_id[1]
        low = values.get(dw.AT_LOW_PC)
        if low is not None:
            self.low_pc = self.address(low) or 0
        return abbreviation, values

    def attach(self, skeleton: Unit) -> None:
        """Connect a split unit to the tables of the program."""
        _, values = skeleton.root
        self.program = skeleton.file
        self.addr_base = skeleton.addr_base
        self.low_pc = skeleton.low_pc
        base = values.get(dw.AT_GNU_RANGES_BASE)
        self.ranges_base = base[1] if base is not None and isinstance(base[1], int) else 0

    def text(self, value: Value | None) -> bytes | None:
        """Return a text; ``None`` if there is none, or it is in a missing file."""
        if value is None:
            return None
        form, number = value
        if isinstance(number, bytes):
            return number
        if form == dw.FORM_STRP:
            return text_at(self.file.strings, number)
        if form == dw.FORM_LINE_STRP:
            return text_at(self.file.line_strings, number)
        if form in dw.ALT_STRINGS:
            return None if self.file.alt is None else text_at(self.file.alt.strings, number)
        if form in dw.STRX_FORMS:
            place = self._str_offsets_base + number * self.offset_size
            offset = self._number(self.file.str_offsets, place, self.offset_size)
            return text_at(self.file.strings, offset)
        return None

    def address(self, value: Value) -> int | None:
        """Return an address; ``None`` if the value is not an address."""
        form, number = value
        if isinstance(number, bytes):
            return None
        if form == dw.FORM_ADDR:
            return number
        return self._indexed_address(number) if form in dw.ADDRX_FORMS else None

    def reference(self, value: Value) -> tuple[DwarfFile, int] | None:
        """Return the file and offset of the entry that a value refers to; None if it is missing."""
        form, number = value
        if isinstance(number, bytes):
            return None
        if form in dw.UNIT_REFERENCES:
            return self.file, self.offset + number
        if form == dw.FORM_REF_ADDR:
            return self.file, number
        if form in dw.ALT_REFERENCES and self.file.alt is not None:
            return self.file.alt, number
        return None

    def ranges(self, values: Values) -> list[tuple[int, int]]:
        """Return the code of an entry: (start, end) in file addresses, in the order of the list.

        Code that the linker removed is left out.
        """
        listed = values.get(dw.AT_RANGES)
        if listed is not None and isinstance(listed[1], int):
            found = self._range_list(listed[0], listed[1])
        else:
            found = self._plain_range(values)
        return [(start, end) for start, end in found if 0 < start < end < _HIGHEST]

    def _plain_range(self, values: Values) -> list[tuple[int, int]]:
        low, high = values.get(dw.AT_LOW_PC), values.get(dw.AT_HIGH_PC)
        if low is None or high is None or isinstance(high[1], bytes):
            return []
        start = self.address(low)
        if start is None:
            return []
        end = self.address(high)
        return [(start, start + high[1] if end is None else end)]

    def _range_list(self, form: int, offset: int) -> list[tuple[int, int]]:
        if self.version < 5:
            program = self.program or self.file
            base = self.ranges_base if self.program is not None else 0
            return self._old_ranges(program.ranges, base + offset)
        if form == dw.FORM_RNGLISTX:
            base = self._rnglists_base
            place = base + offset * self.offset_size
            offset = base + self._number(self.file.rnglists, place, self.offset_size)
        return self._rnglist(self.file.rnglists, offset)

    def _old_ranges(self, data: bytes, offset: int) -> list[tuple[int, int]]:
        """Read a list of ``.debug_ranges``, DWARF 4 section 2.17.3."""
        found: list[tuple[int, int]] = []
        base = self.low_pc
        while True:
            start = self._number(data, offset, _ADDRESS_SIZE)
            end = self._number(data, offset + _ADDRESS_SIZE, _ADDRESS_SIZE)
            offset += 2 * _ADDRESS_SIZE
            if start == end == 0:
                return found
            if start == (1 << 64) - 1:
                base = end
            else:
                found.append((base + start, base + end))

    def _rnglist(self, data: bytes, offset: int) -> list[tuple[int, int]]:
        """Read a list of ``.debug_rnglists``, DWARF 5 section 2.17.3."""
        found: list[tuple[int, int]] = []
        base = self.low_pc
        while True:
            kind = data[offset]
            offset += 1
            if kind == 0:  # DW_RLE_end_of_list
                return found
            numbers = []
            for size in _RANGE_ENTRIES[kind] if kind < len(_RANGE_ENTRIES) else ():
                if size:
                    numbers.append(self._number(data, offset, size))
                    offset += size
                else:
                    number, offset = uleb(data, offset)
                    numbers.append(number)
            if kind == 1:  # base_addressx
                base = self._indexed_address(numbers[0])
            elif kind == 2:  # startx_endx
                found.append((self._indexed_address(numbers[0]), self._indexed_address(numbers[1])))
            elif kind == 3:  # startx_length
                start = self._indexed_address(numbers[0])
                found.append((start, start + numbers[1]))
            elif kind == 4:  # offset_pair
                found.append((base + numbers[0], base + numbers[1]))
            elif kind == 5:  # base_address
                base = numbers[0]
            elif kind == 6:  # start_end
                found.append((numbers[0], numbers[1]))
            elif kind == 7:  # start_length
                found.append((numbers[0], numbers[0] + numbers[1]))
            else:
                raise DwarfError("an unknown kind of range")

    def _indexed_address(self, index: int) -> int:
        program = self.program or self.file
        return self._number(
            program.addresses, self.addr_base + index * _ADDRESS_SIZE, _ADDRESS_SIZE
        )

    @cached_property
    def _str_offsets_base(self) -> int:
        # Header: length (4 bytes, 12 in 64-bit DWARF), version, padding.
        return self._base(dw.AT_STR_OFFSETS_BASE, 2 * self.offset_size)

    @cached_property
    def _rnglists_base(self) -> int:
        # Header: length, version, two sizes instead of padding, and a count.
        return self._base(dw.AT_RNGLISTS_BASE, 2 * self.offset_size + 4)

    def _base(self, attribute: int, header_size: int) -> int:
        """Return the start of a table of this unit: from the root entry, or after its header."""
        value = self.root[1].get(attribute)
        if value is not None and isinstance(value[1], int):
            return value[1]
        return header_size if self.version >= 5 else 0

    @staticmethod
    def _number(data: bytes, offset: int, size: int) -> int:
        number = data[offset : offset + size]
        if len(number) != size:
            raise DwarfError("a reference beyond the end of a table")
        return int.from_bytes(number, "little")


# Sizes of the numbers in each kind of range entry; 0 is LEB128.
_RANGE_ENTRIES: tuple[tuple[int, ...], ...] = (
    (), (0,), (0, 0), (0, 0), (0, 0), (8,), (8, 8), (8, 0)
)  # fmt: skip


def _parse_header(file: DwarfFile, offset: int) -> tuple[Unit | None, int]:
    """Return the unit at ``offset`` (``None`` if of another kind), and the start of the next."""
    data = file.info
    start, offset_size = offset, 4
    length = int.from_bytes(data[offset : offset + 4], "little")
    offset += 4
    if length == 0xFFFFFFFF:
        offset_size = 8
        length = int.from_bytes(data[offset : offset + 8], "little")
        offset += 8
    end = offset + length
    if end > len(data):
        raise DwarfError("truncated: a unit ends beyond .debug_info")
    version = int.from_bytes(data[offset : offset + 2], "little")
    offset += 2
    kind, dwo_id = 1, None
    if version == 5:
        kind, address_size = data[offset], data[offset + 1]
        abbrev = int.from_bytes(data[offset + 2 : offset + 2 + offset_size], "little")
        offset += 2 + offset_size
        if kind in (dw.UT_SKELETON, dw.UT_SPLIT_COMPILE):
            dwo_id = int.from_bytes(data[offset : offset + 8], "little")
            offset += 8
        elif kind in (dw.UT_TYPE, dw.UT_SPLIT_TYPE):
            offset += 8 + offset_size
    else:
        abbrev = int.from_bytes(data[offset : offset + offset_size], "little")
        address_size = data[offset + offset_size] if offset + offset_size < end else 0
        offset += offset_size + 1
    if not 2 <= version <= 5 or address_size != _ADDRESS_SIZE or offset >= end:
        return None, end
    return Unit(file, start, end, offset, version, offset_size, kind, abbrev, dwo_id), end
