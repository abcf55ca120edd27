"""Names and lines of Go programs from the table that Go's own runtime uses, ``.gopclntab``.

Go programs keep it when they are stripped, so every Go function has its name, file and lines.
Inlined functions are not read. Formats of Go 1.18 and 1.20 (used to date); earlier ones are left
alone.

Source: go/src/debug/gosym/pclntab.go; go/src/runtime/symtab.go and runtime2.go (``_func``).
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from flametap.symbols.elf import SHT_NOBITS, SHT_RELA, ElfFile

# Magic of 1.18 and 1.20, two zero bytes, instruction quantum of 1 (x86-64) or 4 (arm64), pointer
# size 8.
_MAGICS = tuple(
    magic + b"\xff\xff\xff\0\0" + quantum + b"\x08"
    for magic in (b"\xf0", b"\xf1")
    for quantum in (b"\x01", b"\x04")
)
_SECTIONS = (".gopclntab", ".data.rel.ro.gopclntab", ".data.rel.ro")  # the last two: linked by gcc
_HEADER = struct.Struct("<8s8Q")
_ENTRY = struct.Struct("<II")  # offset of a function from the start of text, offset of its _func
# entry offset, name, args, deferreturn, pcsp, pcfile, pcln, npcdata, compilation unit
_FUNC = struct.Struct("<IiiIIIIII")


class GoFunction(NamedTuple):
    """A Go function and the place in it."""

    name: str
    start: int  # file_addr
    file: str
    line: int  # 0 if not known


class GoTable:
    """The functions of one Go program.

    Args:
        data: the file's bytes from the start of the table on.
        text_addr: file_addr that functions are counted from.

    Raises:
        struct.error, IndexError: the table is damaged.
    """

    def __init__(self, data: bytes, text_addr: int) -> None:
        (magic, count, _, _, names, units, files, values, functions) = _HEADER.unpack_from(data)
        self._quantum = magic[6]
        self._text_addr = text_addr
        view = memoryview(data)
        self._names, self._units, self._files = view[names:], view[units:], view[files:]
        self._values = data[values:functions]  # bytes: read one at a time, twice as fast
        self._functions = view[functions:]
        self._count = count
        self._end = self._entry(count)[0]  # an entry more than functions: the end of the last

    def lookup(self, file_addr: int) -> GoFunction | None:
        """The function at ``file_addr``."""
        offset = file_addr - self._text_addr
        if not 0 <= offset < self._end:
            return None
        low, high = 0, self._count
        while low < high:
            middle = (low + high) // 2
            if self._entry(middle)[0] <= offset:
                low = middle + 1
            else:
                high = middle
        start, place = self._entry(low - 1)
        if low == 0 or start > offset:
            return None
        fields = _FUNC.unpack_from(self._functions, place)
        name_offset, file_values, line_values, unit = fields[1], fields[5], fields[6], fields[8]
        line = self._value(line_values, start, offset)
        return GoFunction(
            _string(self._names, name_offset),
            self._text_addr + start,
            self._file(unit, self._value(file_values, start, offset)),
            max(line, 0),
        )

    def _entry(self, index: int) -> tuple[int, int]:
        if index == self._count:  # has no _func
            return int.from_bytes(self._functions[index * 8 : index * 8 + 4], "little"), 0
        start, place = _ENTRY.unpack_from(self._functions, index * _ENTRY.size)
        return start, place

    def _file(self, unit: int, number: int) -> str:
        if number < 0 or unit == 0xFFFFFFFF:
            return ""
        (place,) = struct.unpack_from("<I", self._units, (unit + number) * 4)
        return "" if place == 0xFFFFFFFF else _string(self._files, place)

    def _value(self, place: int, start: int, offset: int) -> int:
        """What a table of (value change, address change) pairs holds for an address, or -1."""
        if place == 0:
            return -1
        values, quantum = self._values, self._quantum
        value, end = -1, start
        numbers = [0, 0]
        while end <= offset:
            for i in (0, 1):  # two varints, nearly always of one byte
                byte = values[place]
                place += 1
                number = byte & 0x7F
                shift = 7
                while byte >= 0x80:
                    byte = values[place]
                    place += 1
                    number |= (byte & 0x7F) << shift
                    shift += 7
                numbers[i] = number
            change, length = numbers
            if change == 0 and end != start:
                return -1  # the end of the table
            value += -((change + 1) >> 1) if change & 1 else change >> 1
            end += length * quantum
        return value


def find_go_table(elf: ElfFile) -> GoTable | None:
    """The Go function table of a program; ``None`` for programs in other languages.

    Raises:
        ElfError: the section that holds it is damaged.
    """
    if elf.section(".go.buildinfo") is None:
        return None
    for name in _SECTIONS:
        section = elf.section(name)
        if section is None or section.kind == SHT_NOBITS:
            continue
        data = elf.data(section)
        for magic in _MAGICS:
            place = data.find(magic)
            while place >= 0:
                text_addr = _text_addr(elf, data, place, section.addr)
                try:
                    table = GoTable(data[place:], text_addr)
                    if table.lookup(text_addr) is not None:
                        return table
                except (struct.error, IndexError):
                    pass  # the magic is in other data too
                place = data.find(magic, place + 1)
    return None


def _text_addr(elf: ElfFile, data: bytes, place: int, section_addr: int) -> int:
    """The address functions count from; in position-independent programs the loader fills it in."""
    field = place + 24
    stored = int.from_bytes(data[field : field + 8], "little")
    relocations = elf.section(".rela.dyn")
    if stored or relocations is None or relocations.kind != SHT_RELA:
        return stored
    table = elf.data(relocations)
    wanted = struct.pack("<QQ", section_addr + field, 8)  # R_X86_64_RELATIVE
    found = table.find(wanted)
    return stored if found < 0 else int.from_bytes(table[found + 16 : found + 24], "little")


def _string(table: memoryview, offset: int) -> str:
    # Names are at most a few hundred bytes; the view may be megabytes.
    text = bytes(table[offset : offset + 4096])
    return text.split(b"\0", 1)[0].decode("utf-8", "replace")
