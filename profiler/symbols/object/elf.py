"""The parts of an ELF file that lead to names: sections, segments, build-id, FDE table.

Reads 64-bit little-endian ELF through a read function, so that an open file, bytes copied out of a
process (the vDSO) and a decompressed section look alike. ``linux.elf_headers`` parses the headers.
Nothing is read before it is asked for, every size is checked against the file, and a bad file
raises ``ElfError`` and nothing else. Not pyelftools: it reads node's symbol table in seven times
the time that this takes, and first names on a live page wait for it. The tests use it as an oracle.

Source: System V ABI, "Object Files"; LSB core, ".eh_frame_hdr"; GDB manual, "Separate Debug
Files".
"""

from __future__ import annotations

import lzma
import struct

from ...linux import elf_headers
from ...linux.elf_headers import (
    NT_GNU_BUILD_ID,
    PT_LOAD,
    PT_NOTE,
    SHT_NOBITS,
    SHT_NOTE,
    SHT_SYMTAB,
    ElfHeaderError,
    Header,
)
from .eh_frame_hdr import FdeTable
from .object_file import ObjectError, ObjectFile, Read, Section, Segment

MAX_SECTION_BYTES = 512 << 20  # what is read as a whole; debug information is not
# Read into memory at once: Chromium's symbol names are 0.3 GB. A sparse file promises any size.
MAX_PART_BYTES = 1 << 30
# Mini debug info unpacks to a few MB (Fedora's chromium and webkit: some 100), to 4 to 15 times its
# size. More is a decompression bomb: xz packs zeros to 1/7000.
MAX_DEBUGDATA_BYTES = 256 << 20
MAX_DEBUGDATA_RATIO = 64
_UNPACKED_BYTES = 1 << 20  # at a time
_SMALL_BYTES = 1 << 20  # whatever the ratio
# Of the name of a section. Those that are looked up are shorter; a damaged file may hold a million
# names that end with the file.
_MAX_NAME_BYTES = 256
_MAX_NOTES = 64  # sections and segments that are searched for a build-id; files have up to ten


class ElfError(ObjectError):
    """Not an ELF file that we can read; the message says why."""


class ElfFile(ObjectFile):
    """One ELF image.

    Args:
        read: gives ``size`` bytes at a file_offset.
        size: length of the image in bytes.

    Raises:
        ElfError: not a 64-bit little-endian ELF, or its headers point outside of it.
    """

    format_name = "ELF"

    def __init__(self, read: Read, size: int) -> None:
        super().__init__(read, size)
        try:
            header = elf_headers.parse_header(self._bytes(0, elf_headers.HEADER.size, "header"))
            if header.bits != 64 or header.byte_order != "little":
                raise ElfError("not a 64-bit little-endian ELF file")
            self.file_type, self.machine = header.file_type, header.machine
            self.program_headers = elf_headers.read_program_headers(header, self._some)
            self.segments = [
                Segment(segment.kind, segment.offset, segment.vaddr, segment.file_size)
                for segment in self.program_headers
            ]
            self.sections = self._read_sections(header)
        except ElfHeaderError as error:
            raise ElfError(str(error)) from error
        self._by_name = {section.name: section for section in reversed(self.sections)}
        self.build_id = self._find_build_id()

    @property
    def base_addr(self) -> int:
        """The lowest loaded file_addr: symcache addresses count from here."""
        return min((s.vaddr for s in self.segments if s.kind == PT_LOAD), default=0)

    @property
    def has_symtab(self) -> bool:
        """True when the full symbol table was not stripped."""
        section = self.section(".symtab")
        return section is not None and section.kind == SHT_SYMTAB and section.size > 0

    @property
    def debug_info_bytes(self) -> int:
        """Size of DWARF's ``.debug_info`` as stored; 0 when there is none."""
        section = self.section(".debug_info") or self.section(".zdebug_info")
        return 0 if section is None or section.kind == SHT_NOBITS else section.size

    def section(self, name: str) -> Section | None:
        """The first section of that name."""
        return self._by_name.get(name)

    def data(self, section: Section) -> bytes:
        """The section's bytes as stored (``b""`` for one without contents).

        Raises:
            ElfError: it reaches beyond the end of the file, or is too large to be held.
        """
        if section.kind == SHT_NOBITS:
            return b""
        if section.size > MAX_SECTION_BYTES:
            raise ElfError(f"{section.name} is too large to be read")
        return self._bytes(section.offset, section.size, section.name or "section")

    def part(self, section: Section, offset: int, size: int) -> bytes:
        """Up to ``size`` bytes of a section from ``offset`` on, as stored."""
        if section.kind == SHT_NOBITS or not 0 <= offset < section.size:
            return b""
        return self._read(section.offset + offset, min(size, section.size - offset))

    def at_addr(self, file_addr: int, size: int) -> bytes:
        """``size`` loaded bytes at a file_addr, ``b""`` when they are not in the file."""
        for segment in self.segments:
            if segment.kind != PT_LOAD:
                continue
            start = file_addr - segment.vaddr
            if start >= 0 and start + size <= segment.file_size:
                return self._read(segment.offset + start, size)
        return b""

    def unpack_mini_debug_info(self) -> bytes:
        """The xz-compressed ELF in ``.gnu_debugdata`` (symbol tables of Fedora's files).

        ``b""`` if there is none. For a process whose memory may run out: see ``debuginfo.worker``.

        Raises:
            ElfError: it is damaged, or unpacks to too much.
        """
        section = self.section(".gnu_debugdata")
        if section is None:
            return b""
        packed = self.data(section)
        limit = max(len(packed) * MAX_DEBUGDATA_RATIO, _SMALL_BYTES)
        limit = min(limit, MAX_DEBUGDATA_BYTES)
        unpacker = lzma.LZMADecompressor(memlimit=MAX_DEBUGDATA_BYTES)
        parts, size, rest = [], 0, packed
        try:
            while not unpacker.eof and size <= limit:
                part = unpacker.decompress(rest, _UNPACKED_BYTES)
                if not part and unpacker.needs_input:
                    raise ElfError("damaged .gnu_debugdata: it ends too early")
                parts.append(part)
                size, rest = size + len(part), b""
        except lzma.LZMAError as error:
            raise ElfError(f"damaged .gnu_debugdata: {error}") from error
        if size > limit:
            raise ElfError(f".gnu_debugdata of {len(packed):,} bytes unpacks to over {limit:,}")
        return b"".join(parts)

    def fde_table(self) -> FdeTable | None:
        """The sorted function starts of ``.eh_frame_hdr``, if it has its usual encoding."""
        section = self.section(".eh_frame_hdr")
        if section is None or section.kind == SHT_NOBITS or section.addr >= 1 << 62:
            return None
        data = self.data(section)
        # version 1; eh_frame pointer pcrel|sdata4, count udata4, table datarel|sdata4:
        # what every linker writes.
        if len(data) < 12 or data[0] != 1 or data[1] != 0x1B or data[2:4] != b"\x03\x3b":
            return None
        count = min(struct.unpack_from("<I", data, 8)[0], (len(data) - 12) // 8)
        return FdeTable(self, section.addr, data[12 : 12 + count * 8])

    def _bytes(self, offset: int, size: int, what: str) -> bytes:
        if offset + size > self._size:
            raise ElfError(f"truncated: {what} ends beyond the file")
        if size > MAX_PART_BYTES:
            raise ElfError(f"too large: {what} has {size} bytes")
        data = self._read(offset, size)
        if len(data) != size:
            raise ElfError(f"truncated while reading {what}")
        return data

    def _some(self, offset: int, size: int) -> bytes:
        """``size`` bytes, ``b""`` when they are not all in the file."""
        return b"" if offset + size > self._size else self._read(offset, size)

    def _read_sections(self, header: Header) -> list[Section]:
        raw = elf_headers.read_section_headers(header, self._some)
        holder = elf_headers.find_section_names(header, self._some)
        names = b""
        if holder is not None:
            names = self._bytes(holder.offset, holder.size, "section names")
        return [
            Section(_string(names, name), kind, flags, addr, section_offset, size, link)
            for name, kind, flags, addr, section_offset, size, link, _, _, _ in raw
        ]

    def _find_build_id(self) -> str:
        places = [(s.offset, s.file_size) for s in self.segments if s.kind == PT_NOTE]
        places += [(s.offset, s.size) for s in self.sections if s.kind == SHT_NOTE]
        for offset, size in places[:_MAX_NOTES]:
            if size > 1 << 20 or offset + size > self._size:
                continue  # debug files keep the program headers of the file they were split from
            build_id = build_id_in_notes(self._read(offset, size))
            if build_id:
                return build_id
        return ""


def from_bytes(data: bytes) -> ElfFile:
    """An ELF image held in memory.

    Raises:
        ElfError: see ``ElfFile``.
    """
    return ElfFile(lambda offset, size: data[offset : offset + size], len(data))


def build_id_in_notes(data: bytes) -> str:
    """The GNU build-id in a run of ELF notes, lower-case hex; ``""`` if there is none."""
    for note in elf_headers.notes(data):
        if note.kind == NT_GNU_BUILD_ID and note.name == b"GNU\0":
            return note.description.hex()
    return ""


def _string(table: bytes, offset: int) -> str:
    limit = offset + _MAX_NAME_BYTES
    end = table.find(b"\0", offset, limit)
    return table[offset : end if end >= 0 else limit].decode("utf-8", "replace")
