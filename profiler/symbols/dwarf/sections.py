"""Read DWARF's sections from an ELF file, and decompress them.

Source: System V ABI, "Section Compression"; for ``.zdebug_*`` the GDB sources, gdb/elfread.c.
"""

from __future__ import annotations

import struct
import zlib

from ...linux.elf_headers import SHT_NOBITS
from ..object.object_file import ObjectFile, Section
from .attributes import DwarfError
from .units import DwarfFile

MAX_SECTION_BYTES = 2 << 30  # of one section, decompressed
MAX_RATIO = 200  # debug information unpacks to two to ten times its size; zlib can reach 1032
_SMALL_BYTES = 1 << 20  # whatever the ratio

_SHF_COMPRESSED = 0x800
_ZLIB = 1  # ELFCOMPRESS_ZLIB
_COMPRESSION = struct.Struct("<IIQQ")  # Elf64_Chdr: kind, reserved, size, alignment
_OLD_COMPRESSION = struct.Struct(">4sQ")  # "ZLIB", size


def load(elf: ObjectFile, suffix: str = "", alt: DwarfFile | None = None) -> DwarfFile:
    """Read the sections that are needed to find functions.

    Args:
        elf: the file.
        suffix: ``".dwo"`` for the sections of split units.
        alt: dwz's common file.

    Raises:
        DwarfError, ObjectError: a section is damaged, or has an unknown compression.
    """
    return DwarfFile(
        info=read_section(elf, f".debug_info{suffix}"),
        abbrev=read_section(elf, f".debug_abbrev{suffix}"),
        strings=read_section(elf, f".debug_str{suffix}"),
        line_strings=read_section(elf, f".debug_line_str{suffix}"),
        str_offsets=read_section(elf, f".debug_str_offsets{suffix}"),
        addresses=read_section(elf, ".debug_addr"),
        ranges=read_section(elf, ".debug_ranges"),
        rnglists=read_section(elf, f".debug_rnglists{suffix}"),
        alt=alt,
    )


def read_section(elf: ObjectFile, name: str) -> bytes:
    """Return a section's bytes, decompressed; ``b""`` if there is none.

    Several sections with that name are joined, in order: with ``-fdebug-types-section``, a .dwo
    file has one for each type.

    Raises:
        DwarfError, ObjectError: see ``load``.
    """
    parts = [_unpacked(elf.data(section), section) for section in _named(elf, name)]
    if not parts:
        old = _named(elf, f".z{name[1:]}")
        parts = [_unpacked_old(elf.data(section), section) for section in old]
    if sum(map(len, parts)) > MAX_SECTION_BYTES:
        raise DwarfError(f"{name} is too large")
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _named(elf: ObjectFile, name: str) -> list[Section]:
    """Return the sections of that name, as the format spells it, that have contents."""
    first = elf.section(name)
    if first is None:
        return []
    return [s for s in elf.sections if s.name == first.name and s.kind != SHT_NOBITS]


def _unpacked(data: bytes, section: Section) -> bytes:
    if not section.flags & _SHF_COMPRESSED:
        return data
    if len(data) < _COMPRESSION.size:
        raise DwarfError(f"damaged {section.name}")
    kind, _, size, _ = _COMPRESSION.unpack_from(data)
    if kind != _ZLIB:
        raise DwarfError(f"{section.name} is compressed in a way that is not read here (zstd)")
    return _inflate(data[_COMPRESSION.size :], size, section)


def _unpacked_old(data: bytes, section: Section) -> bytes:
    if len(data) < _OLD_COMPRESSION.size or data[:4] != b"ZLIB":
        raise DwarfError(f"damaged {section.name}")
    size = _OLD_COMPRESSION.unpack_from(data)[1]
    return _inflate(data[_OLD_COMPRESSION.size :], size, section)


def _inflate(data: bytes, size: int, section: Section) -> bytes:
    if size > min(MAX_SECTION_BYTES, max(len(data) * MAX_RATIO, _SMALL_BYTES)):
        raise DwarfError(f"{section.name} is too large, or claims to be")
    try:
        unpacked = zlib.decompressobj().decompress(data, size) if size else b""
    except zlib.error as error:
        raise DwarfError(f"damaged {section.name}: {error}") from error
    if len(unpacked) != size:
        raise DwarfError(f"damaged {section.name}: unpacks to another size")
    return unpacked
