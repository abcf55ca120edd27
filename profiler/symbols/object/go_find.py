"""Find Go's function table in a program, and the base addresses of its offsets.

The table is a section of its own, or part of a data section if gcc linked the program
(``-buildmode=pie``), or anywhere in a program without section headers. Up to Go 1.25, the header of
the table has the start of the code. In all versions, the runtime's ``moduledata`` has it, a
structure whose first word points to the table. The base of the trees of inlined calls is also in
``moduledata``, at a position that depends on Go's version. We try each candidate on the table
itself.

Source: go/src/runtime/symtab.go (``moduledata``, ``pcHeader``); cmd/link/internal/ld/symtab.go.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from ...linux.elf_headers import SHT_NOBITS
from .go_pclntab import (
    MAGIC_1_2,
    MAGIC_1_16,
    MAGIC_1_18,
    MAGIC_1_20,
    GoTable,
)
from .loaded_image import LoadedImage
from .object_file import ObjectFile

# Two zero bytes, instruction quantum of 1 (x86-64) or 4 (arm64), pointer size 8.
_HEADS = tuple(
    struct.pack("<IHBB", magic, 0, quantum, 8)
    for magic in (MAGIC_1_20, MAGIC_1_18, MAGIC_1_16, MAGIC_1_2)
    for quantum in (1, 4)
)
_SECTIONS = (".gopclntab", ".data.rel.ro.gopclntab", ".data.rel.ro")  # the last two: linked by gcc
# Words of moduledata: the table, its names, the first function, start of the code.
_TABLE, _NAMES, _FIRST, _TEXT = 0, 1, 20, 22
_WORDS = 56  # words that are read; so far, the base of trees is word 38, 40 or 43
_MAX_TRIED = 64


def find_go_table(elf: ObjectFile) -> GoTable | None:
    """Return the Go function table of a program; ``None`` for programs in other languages.

    Raises:
        ObjectError: the file has been truncated.
    """
    has_sections = any(section.name for section in elf.sections)
    names = (".go.buildinfo", ".gopclntab")
    if has_sections and all(elf.section(name) is None for name in names):
        return None
    image = LoadedImage(elf)
    for addr in _places(elf, image):
        try:
            table = _open(image, addr)
        except (struct.error, IndexError):
            continue  # the magic number also occurs in other data
        if table is not None:
            return table
    return None


def _places(elf: ObjectFile, image: LoadedImage) -> Iterator[int]:
    """Yield addresses with the magic number of a table."""
    sections = [elf.section(name) for name in _SECTIONS]
    spans = [(s.addr, s.addr + s.size) for s in sections if s and s.kind != SHT_NOBITS and s.addr]
    for start, end in spans or [(0, 1 << 64)]:
        for head in _HEADS:
            yield from image.find(head, start, end)


def _open(image: LoadedImage, addr: int) -> GoTable | None:
    (magic,) = struct.unpack("<I", image.read(addr, 4))
    if magic in (MAGIC_1_2, MAGIC_1_16):
        table = GoTable(image, addr, 0)
        table.find_trees()
    else:
        module = _moduledata(image, addr)
        text_addr = module[_TEXT] if module else image.pointer(addr + 24)
        if not text_addr:
            return None
        table = GoTable(image, addr, text_addr)
        # The ends of code and data come before the base, and also point into the program. So try
        # all words from the start of the code on, each distinct value once.
        for base in dict.fromkeys(module[_TEXT:]):
            if base and image.read_some(base, 1) and table.find_trees(base):
                break
    return table if table.name(0).isprintable() else None


def _moduledata(image: LoadedImage, table_addr: int) -> list[int]:
    """Return the words of the runtime's ``moduledata``, ``[]`` if it is not found."""
    names, functions = (
        table_addr + offset for offset in struct.unpack("<Q24xQ", image.read(table_addr + 32, 40))
    )
    first = int.from_bytes(image.read(functions, 4), "little")
    for count, addr in enumerate(image.find_pointers(table_addr)):
        if count == _MAX_TRIED:
            break
        try:
            words = list(image.pointers(addr, _WORDS))
        except IndexError:
            continue
        if words[_NAMES] == names and words[_FIRST] == words[_TEXT] + first:
            return words
    return []
