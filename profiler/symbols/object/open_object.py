"""Open an object file of any format: ELF, Mach-O, or the right part of a fat Mach-O file."""

from __future__ import annotations

from ...linux import elf_headers
from .elf import ElfFile
from .macho import FAT_MAGIC, FAT_MAGIC_64, MachOFile, fat_slices, open_slice
from .macho_image import MAGIC, MAGIC_32, MAGIC_BIG_ENDIAN, MachOError
from .object_file import ObjectError, ObjectFile, Read

# Other kinds of files that users may name, by their first bytes.
_OTHERS = (
    (b"MZ", "a Windows program"),
    (b"!<arch>\n", "an archive of object files"),
    (b"!<thin>\n", "an archive of object files"),
    (b"BC\xc0\xde", "LLVM bitcode"),
    (b"\xde\xc0\x17\x0b", "LLVM bitcode"),
    (b"\xca\xfe\xba\xbe", "a Java class"),
    (b"PK\x03\x04", "a zip file"),
    (b"dyld_v1", "a dyld shared cache"),
    (b"MODULE ", "a Breakpad symbol file"),
    (b"#!", "a script"),
)


def open_object(read: Read, size: int, build_id: str = "", arch: str = "") -> ObjectFile:
    """Open an object file.

    Args:
        read, size: see ObjectFile.
        build_id: UUID of the part of a fat file; any part if ``""`` or no part has it.
        arch: the processor of the part, a name from ``arches``.

    Raises:
        ObjectError: not an object file, a damaged one, or one without that processor.
    """
    magic = read(0, 8)
    if magic[:4] == elf_headers.MAGIC:
        return ElfFile(read, size)
    if magic[:4] in (MAGIC, MAGIC_BIG_ENDIAN, *MAGIC_32):
        return _of_arch([MachOFile(read, size)], arch)[0]
    if magic[:4] in (FAT_MAGIC, FAT_MAGIC_64):
        parts = _open_parts(read, size)
        if parts:
            wanted = _of_arch(parts, arch)
            return next((part for part in wanted if part.build_id == build_id), wanted[0])
    if not size:
        raise ObjectError("an empty file")
    what = next((what for start, what in _OTHERS if magic.startswith(start)), "")
    detail = f"{what}, " if what else ""
    raise ObjectError(f"{detail}not an ELF or Mach-O file")


def arches(read: Read, size: int) -> list[tuple[str, str]]:
    """Return the processors of a fat file, each with its UUID; empty for any other file."""
    return [(part.arch, part.build_id) for part in _open_parts(read, size)]


def _open_parts(read: Read, size: int) -> list[MachOFile]:
    parts, problem = [], None
    for part in fat_slices(read, size):
        try:
            parts.append(open_slice(read, part))
        except MachOError as error:  # for example a 32-bit part beside others that we can read
            problem = error
    if problem is not None and not parts:
        raise problem
    return parts


def _of_arch(parts: list[MachOFile], arch: str) -> list[MachOFile]:
    wanted = [part for part in parts if not arch or part.arch == arch]
    if not wanted:
        has = ", ".join(part.arch for part in parts)
        raise ObjectError(f"not for {arch}: it is for {has}")
    return wanted
