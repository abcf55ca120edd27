"""Read the links in an object file to the files that belong to it.

Source: GDB manual, "Separate Debug Files"; DWARF 5, section 7.3.6 (``.debug_sup``); dwz(1).
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from ..object.object_file import ObjectFile

_MAX_BYTES = 8192  # two paths of maximum length


class DebugLink(NamedTuple):
    """``.gnu_debuglink``: the file with the symbols that were removed from this one."""

    name: str
    crc32: int  # of that whole file


class AltLink(NamedTuple):
    """The link to dwz's common file, which holds the common parts of several debug files."""

    name: str  # absolute, or relative to the folder of the file with the link
    build_id: str  # of the common file


def debug_link(elf: ObjectFile) -> DebugLink | None:
    """Return the link to the separate debug file, if there is one.

    Raises:
        ObjectError: the section extends beyond the file.
    """
    data = _contents(elf, ".gnu_debuglink")
    name = data.split(b"\0", 1)[0]
    if len(data) < 8 or not name:
        return None
    return DebugLink(_path(name), struct.unpack_from("<I", data, len(data) - 4)[0])


def alt_link(elf: ObjectFile) -> AltLink | None:
    """Return the link to the common file: ``.gnu_debugaltlink``, or DWARF 5's ``.debug_sup``.

    Raises:
        ObjectError: a section extends beyond the file.
    """
    name, _, build_id = _contents(elf, ".gnu_debugaltlink").partition(b"\0")
    if name and build_id:
        return AltLink(_path(name), build_id.hex())
    sup = _supplementary(elf)
    return None if sup is None or sup.is_supplement else AltLink(sup.name, sup.checksum)


def supplement_id(elf: ObjectFile) -> str:
    """Return the id of a common file: its build-id, or for DWARF 5 its checksum.

    Raises:
        ObjectError: a section extends beyond the file.
    """
    sup = _supplementary(elf)
    return elf.build_id or (sup.checksum if sup is not None and sup.is_supplement else "")


class _Supplementary(NamedTuple):
    is_supplement: bool
    name: str
    checksum: str


def _supplementary(elf: ObjectFile) -> _Supplementary | None:
    """Parse ``.debug_sup``: version 5, is_supplementary, name, length as LEB128, checksum."""
    data = _contents(elf, ".debug_sup")
    if len(data) < 5 or data[:2] != b"\x05\0":
        return None
    name, _, rest = data[3:].partition(b"\0")
    # We read one byte of the LEB128 length: no checksum has 128 bytes.
    return _Supplementary(data[2] == 1, _path(name), rest[1 : 1 + rest[0]].hex() if rest else "")


def _contents(elf: ObjectFile, name: str) -> bytes:
    section = elf.section(name)
    if section is None or section.size > _MAX_BYTES:
        return b""
    return elf.data(section)


def shown(text: str) -> str:
    """Return a text that may hold a path, for messages: JSON has no bytes that are not UTF-8."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _path(name: bytes) -> str:
    return name.decode("utf-8", "surrogateescape")
