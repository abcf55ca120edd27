"""Read the structure of a Mach-O image: UUID, segments, sections, function starts, symbol tables.

We read 64-bit little-endian Mach-O (all of macOS since 2012 and iOS since 2017) through a read
function, as ``elf`` does. Parts are read only when they are needed, and every size is checked
against the file. A bad file raises ``MachOError`` and nothing else. ``symbolic`` reads the DWARF.

Sections can also be found by their ELF names (``.debug_info`` finds ``__debug_info``), so code that
reads DWARF or Go's tables need not know the format.

Source: <mach-o/loader.h>, <mach/machine.h>.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

from ...linux.elf_headers import EM_AARCH64, EM_X86_64, SHT_NOBITS
from .object_file import ObjectError, ObjectFile, Read, Section, Segment

MAGIC = b"\xcf\xfa\xed\xfe"
MAGIC_32 = (b"\xce\xfa\xed\xfe", b"\xfe\xed\xfa\xce")
MAGIC_BIG_ENDIAN = b"\xfe\xed\xfa\xcf"

MH_OBJECT, MH_DSYM = 1, 10
S_SYMBOL_STUBS = 8
# Types of sections without contents in the file: zero-filled, very large zero-filled, thread-local.
_ZERO_FILLED = (1, 0xC, 0x12)
_S_ATTR_INSTRUCTIONS = 0x80000400  # only instructions, or some

_LC_SYMTAB, _LC_DYSYMTAB, _LC_SEGMENT_64, _LC_UUID = 0x2, 0xB, 0x19, 0x1B
_LC_FUNCTION_STARTS, _LC_DYLD_INFO, _LC_DYLD_EXPORTS_TRIE = 0x26, 0x22, 0x33
_LC_REQ_DYLD = 0x80000000

# cputype, cpusubtype without its capability bits → the name that lipo and `arch` use.
_ARCHES = {
    (0x01000007, 3): "x86_64",
    (0x01000007, 8): "x86_64h",
    (0x0100000C, 0): "arm64",
    (0x0100000C, 1): "arm64",
    (0x0100000C, 2): "arm64e",
}
_MACHINES = {0x01000007: EM_X86_64, 0x0100000C: EM_AARCH64}

MAX_FUNCTIONS = 1 << 24
MAX_ADDR = 1 << 61  # far above any address of a process, and low enough that sums cannot overflow

_HEADER = struct.Struct("<4sIIIIIII")
_COMMAND = struct.Struct("<II")
_SEGMENT = struct.Struct("<II16sQQQQIIII")
_SECTION = struct.Struct("<16s16sQQIIIIIIII")


class MachOError(ObjectError):
    """Not a Mach-O file that we can read; the message gives the reason."""


class Place(NamedTuple):
    """A range of bytes in the file."""

    offset: int
    size: int


class StubSection(NamedTuple):
    """A section of stubs: the n-th stub calls the n-th symbol from ``first_index`` on."""

    section: Section
    first_index: int  # in the indirect symbol table
    stub_size: int


class MachOImage(ObjectFile):
    """One Mach-O image (a slice, if the file is fat), without its symbols.

    Attributes:
        arch: "x86_64", "arm64", "arm64e" …
        file_type: ``MH_*``; MH_DSYM for the file in a dSYM bundle.
        code_sections: numbers (from 1) of the sections that hold instructions.
        symbols, strings, indirect, exports: positions of these tables, ``None`` if they do not
            exist.
        stubs: see StubSection.

    Raises:
        MachOError: not a 64-bit little-endian Mach-O, or its headers point outside of it.
    """

    format_name = "Mach-O"

    def __init__(self, read: Read, size: int) -> None:
        super().__init__(read, size)
        header = self.read_exactly(Place(0, _HEADER.size), "header")
        magic, cpu, subtype, self.file_type, count, commands_size, _, _ = _HEADER.unpack(header)
        if magic in MAGIC_32:
            raise MachOError("a 32-bit Mach-O file")
        if magic == MAGIC_BIG_ENDIAN:
            raise MachOError("a big-endian Mach-O file")
        if magic != MAGIC:
            raise MachOError("not a Mach-O file")
        self.arch = arch_name(cpu, subtype)
        self.machine = _MACHINES.get(cpu, 0)
        self.segments = []
        self.sections = []
        self.stubs: list[StubSection] = []
        self.code_sections: set[int] = set()
        self.symbols: Place | None = None
        self.strings: Place | None = None
        self.indirect: Place | None = None
        self.exports: Place | None = None
        self._text_addr: int | None = None
        self._function_starts: Place | None = None
        commands = self.read_exactly(Place(_HEADER.size, commands_size), "load commands")
        try:
            self._read_commands(commands, count)
        except struct.error as error:
            raise MachOError("damaged load commands") from error
        self._by_name = {section.name: section for section in reversed(self.sections)}

    @property
    def base_addr(self) -> int:
        """The address of ``__TEXT``, where the header is: symcache addresses are relative to it."""
        if self._text_addr is not None:
            return self._text_addr
        return min((segment.vaddr for segment in self.segments), default=0)

    @property
    def debug_info_bytes(self) -> int:
        """Size of ``__debug_info`` in the file; 0 if there is none."""
        section = self.section(".debug_info") or self.section(".zdebug_info")
        return 0 if section is None or section.kind == SHT_NOBITS else section.size

    def section(self, name: str) -> Section | None:
        """Return the first section of that name, a Mach-O or an ELF name."""
        if name.startswith("."):
            name = f"__{name[1:].replace('.', '_')}"[:16]
        return self._by_name.get(name)

    def data(self, section: Section) -> bytes:
        """See ObjectFile."""
        if section.kind == SHT_NOBITS:
            return b""
        return self.read_exactly(Place(section.offset, section.size), section.name)

    def at_addr(self, file_addr: int, size: int) -> bytes:
        """See ObjectFile."""
        for segment in self.segments:
            start = file_addr - segment.vaddr
            if start >= 0 and start + size <= segment.file_size:
                return self._read(segment.offset + start, size)
        return b""

    def fde_table(self) -> FunctionTable | None:
        """Return the function starts, which strip does not remove."""
        return self._function_table

    @cached_property
    def _function_table(self) -> FunctionTable | None:
        if self._function_starts is None:
            return None
        data = self.read_exactly(self._function_starts, "function starts")
        ends = [
            (section.addr, section.addr + section.size)
            for number, section in enumerate(self.sections, 1)
            if number in self.code_sections
        ]
        starts, addr = [], self.base_addr
        for delta in _uleb_numbers(data):
            if delta == 0:
                break  # padding
            addr += delta
            if addr >= MAX_ADDR:
                break  # damaged
            starts.append(addr)
        return FunctionTable(starts, sorted(ends)) if starts else None

    def read_exactly(self, place: Place, what: str) -> bytes:
        """Return all bytes of a range.

        Raises:
            MachOError: the file ends before.
        """
        if place.offset + place.size > self._size:
            raise MachOError(f"truncated: {what} ends beyond the file")
        data = self._read(place.offset, place.size)
        if len(data) != place.size:
            raise MachOError(f"truncated while reading {what}")
        return data

    def _read_commands(self, commands: bytes, count: int) -> None:
        position = 0
        for _ in range(count):
            kind, size = _COMMAND.unpack_from(commands, position)
            if size < _COMMAND.size or position + size > len(commands):
                raise MachOError("damaged load commands")
            self._read_command(kind & ~_LC_REQ_DYLD, commands[position : position + size])
            position += size

    def _read_command(self, kind: int, command: bytes) -> None:
        if kind == _LC_SEGMENT_64:
            self._read_segment(command)
        elif kind == _LC_UUID:
            (uuid,) = struct.unpack_from("<16s", command, 8)
            self.build_id = uuid.hex() if any(uuid) else ""
        elif kind == _LC_SYMTAB:
            offset, number, strings, strings_size = struct.unpack_from("<IIII", command, 8)
            self.symbols = Place(offset, number * 16)
            self.strings = Place(strings, strings_size)
        elif kind == _LC_DYSYMTAB:
            offset, number = struct.unpack_from("<II", command, 56)
            self.indirect = Place(offset, number * 4)
        elif kind == _LC_FUNCTION_STARTS:
            self._function_starts = Place(*struct.unpack_from("<II", command, 8))
        elif kind == _LC_DYLD_INFO:
            self.exports = Place(*struct.unpack_from("<II", command, 40))
        elif kind == _LC_DYLD_EXPORTS_TRIE:
            self.exports = Place(*struct.unpack_from("<II", command, 8))

    def _read_segment(self, command: bytes) -> None:
        (_, _, name, vaddr, _, offset, file_size, _, _, count, _) = _SEGMENT.unpack_from(command)
        name = name.rstrip(b"\0")
        file_size = min(file_size, self._size - offset)  # the size may be damaged
        if file_size > 0:
            self.segments.append(Segment(1, offset, vaddr, file_size))
        if name == b"__TEXT":
            self._text_addr = vaddr
        for i in range(count):
            (section_name, _, addr, size, section_offset, _, _, _, flags, index, stub_size, _) = (
                _SECTION.unpack_from(command, _SEGMENT.size + i * _SECTION.size)
            )
            kind = flags & 0xFF
            # The file in a dSYM bundle also has headers of sections that it does not contain.
            is_empty = kind in _ZERO_FILLED or section_offset == 0
            section = Section(
                section_name.rstrip(b"\0").decode("utf-8", "replace"),
                SHT_NOBITS if is_empty else 1,
                flags,
                addr,
                section_offset,
                size,
                0,
            )
            self.sections.append(section)
            if flags & _S_ATTR_INSTRUCTIONS:
                self.code_sections.add(len(self.sections))
            if kind == S_SYMBOL_STUBS and stub_size:
                self.stubs.append(StubSection(section, index, stub_size))


class FunctionTable:
    """Function starts, sorted. A function ends at the next start, or at its section's end.

    Args:
        starts: file_addrs.
        sections: (start, end) of the sections with code, sorted.
    """

    def __init__(self, starts: list[int], sections: list[tuple[int, int]]) -> None:
        self.starts = starts
        self._sections = sections

    def starts_at(self, file_addrs: Sequence[int]) -> list[int]:
        """Return where the function begins (file_addr) that covers each address; or the address."""
        found = zip(file_addrs, self.functions_at(file_addrs), strict=True)
        return [file_addr if span is None else span[0] for file_addr, span in found]

    def functions_at(self, file_addrs: Sequence[int]) -> list[tuple[int, int] | None]:
        """Return start and end (file_addr) of the function that covers each address."""
        return [self._function_at(file_addr) for file_addr in file_addrs]

    def _function_at(self, file_addr: int) -> tuple[int, int] | None:
        index = bisect_right(self.starts, file_addr)
        if index == 0:
            return None
        start = self.starts[index - 1]
        place = bisect_right(self._sections, (start, 1 << 64)) - 1
        if place < 0 or file_addr >= self._sections[place][1]:
            return None
        end = self._sections[place][1]
        return start, min(end, self.starts[index]) if index < len(self.starts) else end


def arch_name(cpu: int, subtype: int) -> str:
    """Return the usual name of a processor."""
    return _ARCHES.get((cpu, subtype & 0xFFFFFF), f"cpu {cpu:#x}")


def _uleb_numbers(data: bytes) -> list[int]:
    """Decode a sequence of unsigned LEB128 numbers.

    Source: DWARF 5, 7.6.
    """
    numbers: list[int] = []
    value = shift = 0
    for byte in data:
        value |= (byte & 0x7F) << shift
        if byte & 0x80:
            shift += 7
            if shift > 63:
                break  # damaged
            continue
        numbers.append(value)
        if len(numbers) >= MAX_FUNCTIONS:
            break
        value = shift = 0
    return numbers
