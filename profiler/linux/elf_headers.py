"""Read the headers of 64-bit little-endian ELF files: file, program and section headers, notes.

The bytes may be hostile. All that is raised is ``ElfHeaderError``. A table is read only after its
size is checked, and no size in a header makes us read more than ``MAX_SECTIONS`` headers at once.
Headers come through a read function, so that an open file, a copy of a process's memory and an
unpacked section look alike. Any thread may call these functions: they keep nothing.

Source: elf(5), <elf.h>; System V ABI, "Object Files" and "Program Loading"; LSB core, "Notes".
"""

from __future__ import annotations

import functools
import os
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

MAGIC = b"\x7fELF"

# Elf64_Ehdr, Elf64_Phdr, Elf64_Shdr, Elf64_Sym, Elf64_Nhdr.
HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
PROGRAM_HEADER = struct.Struct("<IIQQQQQQ")
SECTION_HEADER = struct.Struct("<IIQQQQIIQQ")
SYMBOL = struct.Struct("<IBBHQQ")
_NOTE = struct.Struct("<III")
_HEADER_BYTES_32 = 52  # Elf32_Ehdr

# e_machine
EM_386, EM_MIPS, EM_PPC, EM_ARM = 3, 8, 20, 40
EM_X86_64, EM_AARCH64, EM_RISCV = 62, 183, 243
# p_type, p_flags
PT_LOAD, PT_DYNAMIC, PT_INTERP, PT_NOTE, PT_GNU_EH_FRAME = 1, 2, 3, 4, 0x6474E550
PF_X, PF_R = 1, 4
# sh_type, sh_flags
SHT_PROGBITS, SHT_SYMTAB, SHT_STRTAB, SHT_RELA = 1, 2, 3, 4
SHT_NOTE, SHT_NOBITS, SHT_DYNSYM = 7, 8, 11
SHF_EXECINSTR = 0x4
# In place of e_shstrndx: the index is in section 0.
_SHN_XINDEX = 0xFFFF
# n_type of notes by "GNU"
NT_GNU_ABI_TAG, NT_GNU_BUILD_ID = 1, 3

MAX_SECTIONS = 1 << 20  # far above what linkers write; a damaged header asks for 2^64
_MAX_OFFSET = (1 << 63) - 1  # of a file, for pread(2)

# (file_offset, size) -> bytes; shorter at the end of the file.
Read = Callable[[int, int], bytes]


class ElfHeaderError(ValueError):
    """The headers cannot be read; the message says why, in one line."""


class Table(NamedTuple):
    """Where a table of headers is, as the file header says. Not checked against the file."""

    offset: int  # file_offset
    entry_bytes: int
    entries: int


class ProgramHeader(NamedTuple):
    """One ``Elf64_Phdr``; ``vaddr`` is a file_addr, sizes are in bytes."""

    kind: int
    flags: int
    offset: int
    vaddr: int
    paddr: int
    file_size: int
    memory_size: int
    alignment: int


class SectionHeader(NamedTuple):
    """One ``Elf64_Shdr``; ``name`` is an offset in the section names, ``addr`` a file_addr."""

    name: int
    kind: int
    flags: int
    addr: int
    offset: int
    size: int
    link: int
    info: int
    alignment: int
    entry_bytes: int


class Note(NamedTuple):
    """One note; ``name`` ends with a zero byte."""

    name: bytes
    kind: int
    description: bytes


@dataclass(frozen=True)
class Header:
    """The file header. The tables of a 32-bit or big-endian file are empty: we do not read it."""

    bits: int  # 32 or 64
    byte_order: str  # "little" or "big"; "" in a file that says neither
    file_type: int  # e_type
    machine: int  # e_machine
    program_headers: Table
    section_headers: Table
    names_index: int  # e_shstrndx


def file_reader(descriptor: int, max_bytes: int) -> Read:
    """Return a read function for an open file.

    Args:
        descriptor: the file; it stays open.
        max_bytes: the most that one call returns.

    Returns:
        A function that returns ``b""`` for an offset that no file has, and raises OSError.
    """

    def read(offset: int, size: int) -> bytes:
        size = min(size, max_bytes)
        return os.pread(descriptor, size, offset) if offset + size <= _MAX_OFFSET else b""

    return read


def parse_header(data: bytes) -> Header:
    """Parse the file header.

    Args:
        data: the file's first 64 bytes, or more. The 52 of a 32-bit header are enough for one.

    Raises:
        ElfHeaderError: no ELF file, or too short.
    """
    if not data.startswith(MAGIC):
        raise ElfHeaderError("not an ELF file")
    if len(data) < _HEADER_BYTES_32:
        raise ElfHeaderError("truncated: the ELF header ends beyond the file")
    bits = 64 if data[4] == 2 else 32  # ELFCLASS64
    byte_order = {1: "little", 2: "big"}.get(data[5], "")  # ELFDATA2LSB, ELFDATA2MSB
    if bits == 32 or byte_order == "big":
        order = ">" if byte_order == "big" else "<"
        file_type, machine = struct.unpack_from(order + "HH", data, 16)
        nothing = Table(0, 0, 0)
        return Header(bits, byte_order, file_type, machine, nothing, nothing, 0)
    if len(data) < HEADER.size:
        raise ElfHeaderError("truncated: the ELF header ends beyond the file")
    # e_phnum is taken as it is: PN_XNUM, for 65 535 segments and more, occurs in core dumps only.
    (_, file_type, machine, _, _, phoff, shoff, _, _, phentsize, phnum, shentsize, shnum,
     shstrndx) = HEADER.unpack_from(data)  # fmt: skip
    return Header(
        bits,
        byte_order,
        file_type,
        machine,
        Table(phoff, phentsize, phnum),
        Table(shoff, shentsize, shnum),
        shstrndx,
    )


def read_program_headers(header: Header, read: Read) -> list[ProgramHeader]:
    """Read all program headers, 65 535 at most.

    Raises:
        ElfHeaderError: they have an unknown size, or end beyond the file.
    """
    table = header.program_headers
    if table.entries == 0:
        return []
    if table.entry_bytes != PROGRAM_HEADER.size:
        raise ElfHeaderError("program headers of an unknown size")
    data = _read_whole(read, table.offset, table.entry_bytes * table.entries, "program headers")
    return list(map(ProgramHeader._make, PROGRAM_HEADER.iter_unpack(data)))


def read_section_headers(header: Header, read: Read) -> list[SectionHeader]:
    """Read all section headers, ``MAX_SECTIONS`` at most.

    Raises:
        ElfHeaderError: they have an unknown size, end beyond the file, or are too many.
    """
    count, _ = _section_numbers(header, read)
    offset, entry_bytes, _ = header.section_headers
    if count > MAX_SECTIONS:
        raise ElfHeaderError("too many sections")
    data = _read_whole(read, offset, entry_bytes * count, "section headers")
    # As SectionHeader._make does, in a third of the time: files may have 10^5 sections.
    make = functools.partial(tuple.__new__, SectionHeader)
    return list(map(make, SECTION_HEADER.iter_unpack(data)))


def find_section_names(header: Header, read: Read) -> SectionHeader | None:
    """Read the header of the section that holds the names of all; None if the file has none.

    Raises:
        ElfHeaderError: section headers have an unknown size, or end beyond the file.
    """
    count, index = _section_numbers(header, read)
    if index >= count:
        return None
    return _read_section_header(header, index, read)


def notes(data: bytes) -> Iterator[Note]:
    """Parse a run of notes. The last one may be cut short."""
    position = 0
    while position + _NOTE.size <= len(data):
        name_bytes, description_bytes, kind = _NOTE.unpack_from(data, position)
        start = position + _NOTE.size
        name = data[start : start + name_bytes]
        start += (name_bytes + 3) & ~3  # names and descriptions are padded to 4 bytes
        yield Note(name, kind, data[start : start + description_bytes])
        position = start + ((description_bytes + 3) & ~3)


def _section_numbers(header: Header, read: Read) -> tuple[int, int]:
    """The number of sections, and the index of the one that holds their names.

    Where there are 65 280 or more, section 0 holds both: its ``size`` and ``link``.
    """
    offset, entry_bytes, count = header.section_headers
    if offset == 0:
        return 0, 0
    if entry_bytes != SECTION_HEADER.size:
        raise ElfHeaderError("section headers of an unknown size")
    index = header.names_index
    if count == 0 or index == _SHN_XINDEX:
        first = _read_section_header(header, 0, read)
        count = count or first.size
        index = first.link if index == _SHN_XINDEX else index
    return count, index


def _read_section_header(header: Header, index: int, read: Read) -> SectionHeader:
    offset, entry_bytes, _ = header.section_headers
    data = _read_whole(read, offset + index * entry_bytes, entry_bytes, "section headers")
    return SectionHeader._make(SECTION_HEADER.unpack(data))


def _read_whole(read: Read, offset: int, size: int, what: str) -> bytes:
    data = read(offset, size)
    if len(data) != size:
        raise ElfHeaderError(f"truncated: the {what} end beyond the file")
    return data
