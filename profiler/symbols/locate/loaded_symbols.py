"""Look up exported symbols in a file as it is loaded, in the memory of the process.

Asks the hash table that the dynamic loader itself uses: some eight reads of a few bytes tell that a
file does not export a name. No file is opened, so this works for files that were deleted, lie in
another mount namespace, or may not be read by us.

The bytes may be hostile. All that is raised is ``MemoryReadError``, and only by the constructor;
every search has a bound.

Source: System V ABI, "Dynamic Section", "Hash Table"; glibc elf/dl-lookup.c (GNU hash table).
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from ...linux.elf_headers import (
    EM_X86_64,
    PT_DYNAMIC,
    PT_LOAD,
    SYMBOL,
    ElfHeaderError,
    ProgramHeader,
    parse_header,
    read_program_headers,
)
from ...linux.process_memory import MemoryReadError, ProcessMemory

_PAGE_BYTES = 4096
_DT_HASH, _DT_STRTAB, _DT_SYMTAB, _DT_GNU_HASH = 4, 5, 6, 0x6FFFFEF5
_DT_SONAME = 14
_MAX_DYNAMIC_BYTES = 1 << 14  # a thousand entries; the largest that we have seen has 50
_MAX_CHAIN = 1 << 10  # symbols of one bucket
_MAX_NAME_BYTES = 256


class LoadedSymbol(NamedTuple):
    """A symbol that is defined in the file."""

    addr: int  # runtime_addr
    size: int  # bytes, 0 if unknown


class LoadedElf:
    """One loaded ELF file.

    Args:
        memory: the memory of the process.
        start: runtime_addr of the file's first byte.

    Attributes:
        load_bias: runtime_addr - file_addr.
        end: runtime_addr behind all that is loaded, zeroed memory included.

    Raises:
        MemoryReadError: it is no ELF file of this machine, or not loaded as its headers say.
    """

    def __init__(self, memory: ProcessMemory, start: int) -> None:
        self._memory = memory
        self.start = start
        head = memory.read_some(start, _PAGE_BYTES)
        try:
            header = parse_header(head)
            if header.machine != EM_X86_64:
                raise MemoryReadError("for another machine")
            self.program_headers = read_program_headers(header, self._read_image)
        except ElfHeaderError as error:
            raise MemoryReadError(str(error)) from error
        loads = [each for each in self.program_headers if each.kind == PT_LOAD]
        first = next((each for each in loads if each.offset < _PAGE_BYTES), None)
        if first is None:
            raise MemoryReadError("its headers are not loaded")
        self.load_bias = start - (first.vaddr - first.offset)
        top = max(each.vaddr + each.memory_size for each in loads)
        self.end = self.load_bias + (top + _PAGE_BYTES - 1) // _PAGE_BYTES * _PAGE_BYTES
        self._tags = self._read_dynamic()

    def segment_of(self, file_offset: int) -> ProgramHeader | None:
        """Return the loaded segment that a position in the file belongs to."""
        for each in self.program_headers:
            if each.kind == PT_LOAD and 0 <= file_offset - each.offset < each.file_size:
                return each
        return None

    def symbol(self, name: str) -> LoadedSymbol | None:
        """Return the exported symbol of that name; None if the file defines none."""
        try:
            if _DT_GNU_HASH in self._tags:
                return self._gnu_look_up(name.encode())
            if _DT_HASH in self._tags:
                return self._look_up(name.encode())
        except MemoryReadError:
            pass
        return None

    @property
    def so_name(self) -> str:
        """The name under which others link to it; "" if it has none."""
        try:
            offset = self._tags[_DT_SONAME]
            data = self._memory.read_some(self._place(_DT_STRTAB) + offset, _MAX_NAME_BYTES)
        except (KeyError, MemoryReadError):
            return ""
        return data.partition(b"\0")[0].decode("utf-8", "replace")

    def _read_image(self, offset: int, size: int) -> bytes:
        """Read what lies at a place in the file if it is loaded as the file's begin is: tools that
        add a segment (LIEF, in node's single executable applications) move the program headers.
        """
        return self._memory.read(self.start + offset, size)

    def _read_dynamic(self) -> dict[int, int]:
        dynamic = next((each for each in self.program_headers if each.kind == PT_DYNAMIC), None)
        if dynamic is None:
            return {}  # linked statically
        size = min(dynamic.memory_size, _MAX_DYNAMIC_BYTES) // 16 * 16
        data = self._memory.read(self.load_bias + dynamic.vaddr, size)
        tags: dict[int, int] = {}
        for tag, value in struct.iter_unpack("<QQ", data):
            if tag == 0:  # DT_NULL
                break
            tags.setdefault(tag, value)
        return tags

    def _place(self, tag: int) -> int:
        """Return the address of a table. glibc has put the bias into it, others have not."""
        value = self._tags.get(tag)
        if value is None:
            raise MemoryReadError("a table is missing")
        return value if self.start <= value < self.end else value + self.load_bias

    def _gnu_look_up(self, name: bytes) -> LoadedSymbol | None:
        table = self._place(_DT_GNU_HASH)
        buckets, first, bloom_words, shift = struct.unpack("<4I", self._memory.read(table, 16))
        if not buckets or not bloom_words or shift > 63:
            return None
        hashed = gnu_hash(name)
        bloom = self._memory.word(table + 16 + hashed // 64 % bloom_words * 8)
        if not bloom >> hashed % 64 & bloom >> (hashed >> shift) % 64 & 1:
            return None
        start = table + 16 + bloom_words * 8
        index = self._memory.integer(start + hashed % buckets * 4, 4)
        if index < first:
            return None
        chain = start + buckets * 4
        for number in range(index, index + _MAX_CHAIN):
            found = self._memory.integer(chain + (number - first) * 4, 4)
            if found | 1 == hashed | 1 and (symbol := self._symbol(number, name)):
                return symbol
            if found & 1:
                break
        return None

    def _look_up(self, name: bytes) -> LoadedSymbol | None:
        table = self._place(_DT_HASH)
        buckets, _ = struct.unpack("<2I", self._memory.read(table, 8))
        if not buckets:
            return None
        index = self._memory.integer(table + 8 + sysv_hash(name) % buckets * 4, 4)
        for _ in range(_MAX_CHAIN):
            if not index:
                break
            if symbol := self._symbol(index, name):
                return symbol
            index = self._memory.integer(table + 8 + (buckets + index) * 4, 4)
        return None

    def _symbol(self, index: int, name: bytes) -> LoadedSymbol | None:
        place = self._place(_DT_SYMTAB) + index * SYMBOL.size
        fields = SYMBOL.unpack(self._memory.read(place, SYMBOL.size))
        string, _, _, section, value, size = fields
        if not section or value >= 1 << 62:  # SHN_UNDEF: another file's
            return None
        text = self._memory.read_some(self._place(_DT_STRTAB) + string, len(name) + 1)
        return LoadedSymbol(self.load_bias + value, size) if text == name + b"\0" else None


def gnu_hash(name: bytes) -> int:
    """Return the hash of a name in ``DT_GNU_HASH``."""
    hashed = 5381
    for byte in name:
        hashed = (hashed * 33 + byte) & 0xFFFFFFFF
    return hashed


def sysv_hash(name: bytes) -> int:
    """Return the hash of a name in ``DT_HASH``."""
    hashed = 0
    for byte in name:
        hashed = (hashed << 4) + byte
        high = hashed & 0xF0000000
        hashed = (hashed ^ high >> 24) & ~high
    return hashed
