"""Find out which file is loaded, from the memory that it is in: its build-id, where it is linked.

Only headers are read, of ELF and of Mach-O. Source: System V ABI, "Program Header";
<mach-o/loader.h>.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import NamedTuple

from ..symbols.object.elf import build_id_in_notes
from ..symbols.object.macho_image import MAGIC as MACHO_MAGIC

HEADER_BYTES = 4096
_MAX_COMMANDS_BYTES = 1 << 16
_MAX_NOTE_BYTES = 1 << 12
_PT_LOAD, _PT_NOTE = 1, 4
_LC_SEGMENT_64, _LC_UUID = 0x19, 0x1B
_MAX_HEADERS = 64
_MAX_LINK_BASE = 1 << 48

Read = Callable[[int, int], bytes]
"""Returns so many bytes of memory; fewer, or none, where they cannot be read."""


class ImageFacts(NamedTuple):
    """What a loaded file says of itself."""

    link_base: int  # the file_addr of its first byte
    build_id: str  # "" if it has none


UNKNOWN = ImageFacts(0, "")


def image_facts(read: Read, base: int) -> ImageFacts:
    """Return what the file that is loaded at ``base`` says of itself, as far as it can be read."""
    try:
        head = read(base, HEADER_BYTES)
        if head[:4] == b"\x7fELF":
            return _elf_facts(read, base, head)
        if head[:4] == MACHO_MAGIC:
            return _macho_facts(read, base, head)
    except (struct.error, ValueError, IndexError):  # it is damaged, or no such file
        pass
    return UNKNOWN


def _elf_facts(read: Read, base: int, head: bytes) -> ImageFacts:
    is_64 = head[4] == 2
    if is_64:
        (offset,) = struct.unpack_from("<Q", head, 32)
        size, count = struct.unpack_from("<HH", head, 54)
    else:
        (offset,) = struct.unpack_from("<I", head, 28)
        size, count = struct.unpack_from("<HH", head, 42)
    segments = []
    for number in range(min(count, _MAX_HEADERS)):
        at = offset + number * size
        if is_64:
            kind, _, _, vaddr, _, bytes_ = struct.unpack_from("<IIQQQQ", head, at)
        else:
            kind, _, vaddr, _, bytes_ = struct.unpack_from("<IIIII", head, at)
        segments.append((kind, vaddr, bytes_))
    link_base = min((vaddr & ~0xFFF for kind, vaddr, _ in segments if kind == _PT_LOAD), default=0)
    if link_base > _MAX_LINK_BASE:
        return UNKNOWN
    for kind, vaddr, bytes_ in segments:
        if kind == _PT_NOTE and bytes_ <= _MAX_NOTE_BYTES:
            build_id = build_id_in_notes(read(base + vaddr - link_base, bytes_))
            if build_id:
                return ImageFacts(link_base, build_id)
    return ImageFacts(link_base, "")


def _macho_facts(read: Read, base: int, head: bytes) -> ImageFacts:
    count, size = struct.unpack_from("<II", head, 16)
    commands = read(base + 32, min(size, _MAX_COMMANDS_BYTES))
    link_base, build_id, at = 0, "", 0
    for _ in range(count):
        if at + 8 > len(commands):
            break
        command, length = struct.unpack_from("<II", commands, at)
        if command == _LC_UUID:
            build_id = commands[at + 8 : at + 24].hex()
        elif command == _LC_SEGMENT_64 and commands[at + 8 : at + 15] == b"__TEXT\0":
            (link_base,) = struct.unpack_from("<Q", commands, at + 24)
        if length < 8:
            break
        at += length
    return ImageFacts(link_base, build_id) if link_base <= _MAX_LINK_BASE else UNKNOWN
