"""Open Mach-O files: one image, or a fat file with one image for each kind of processor.

Source: <mach-o/fat.h>.
"""

from __future__ import annotations

import struct
from functools import cached_property
from typing import NamedTuple

from .macho_image import MachOError, MachOImage, Place, arch_name
from .macho_symbols import count_functions
from .object_file import Read

FAT_MAGIC = b"\xca\xfe\xba\xbe"
FAT_MAGIC_64 = b"\xca\xfe\xba\xbf"
MAX_SLICES = 32  # a Java class file has the same magic, and its version, 45 or more, in this field

_FAT_ARCH = struct.Struct(">IIIII")
_FAT_ARCH_64 = struct.Struct(">IIQQII")


class MachOFile(MachOImage):
    """One Mach-O image (a slice, if the file is fat)."""

    @cached_property
    def has_symtab(self) -> bool:
        """True if private functions also have names."""
        private, public = count_functions(self)
        starts = self.fde_table()
        return private > 0 or public >= len(starts.starts if starts else ()) > 0


class Slice(NamedTuple):
    """One image of a fat file."""

    arch: str
    place: Place


def fat_slices(read: Read, size: int) -> list[Slice]:
    """Return the images of a fat file, in its order; empty for other files.

    Raises:
        MachOError: its headers point outside of it.
    """
    header = read(0, 8)
    if len(header) < 8 or header[:4] not in (FAT_MAGIC, FAT_MAGIC_64):
        return []
    (count,) = struct.unpack_from(">I", header, 4)
    if not 0 < count <= MAX_SLICES:
        return []
    entry = _FAT_ARCH if header[:4] == FAT_MAGIC else _FAT_ARCH_64
    table = read(8, count * entry.size)
    if len(table) != count * entry.size:
        raise MachOError("truncated: the table of a fat file")
    slices = []
    for cpu, subtype, offset, length, *_ in entry.iter_unpack(table):
        if offset + length > size:
            raise MachOError(f"truncated: the {arch_name(cpu, subtype)} part ends beyond the file")
        slices.append(Slice(arch_name(cpu, subtype), Place(offset, length)))
    return slices


def open_slice(read: Read, part: Slice) -> MachOFile:
    """Open one image of a fat file.

    Raises:
        MachOError: see MachOFile.
    """
    start, length = part.place

    def read_inside(offset: int, size: int) -> bytes:
        return read(start + offset, max(0, min(size, length - offset)))

    return MachOFile(read_inside, length)
