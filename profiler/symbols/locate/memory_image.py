"""Rebuild an ELF file from the memory of a process, if its file cannot be opened.

The loaded part of a file has no section headers. The dynamic segment locates the dynamic symbols;
the program headers locate code, notes and unwind tables. So we get exported names, the build-id
(and with it the debug file), and function starts. We copy the bytes, because the process may have
ended when they are needed.

Source: System V ABI, "Dynamic Section"; gABI hash table; glibc elf/dl-lookup.c (GNU hash table, and
``d_ptr`` entries that the loader has replaced by addresses).
"""

from __future__ import annotations

import struct
from collections.abc import Callable

from ...linux.elf_headers import (
    PF_X,
    PT_DYNAMIC,
    PT_GNU_EH_FRAME,
    PT_LOAD,
    SHF_EXECINSTR,
    SHT_DYNSYM,
    SHT_PROGBITS,
    SHT_STRTAB,
    SYMBOL,
    Header,
)
from ...model import Module
from ..object.elf import ElfError, ElfFile, from_bytes
from ..object.object_file import Section
from .mappings import Mappings, read_memory

VDSO_PATH = "[vdso]"
_MAX_VDSO_BYTES = 1 << 20  # two pages on x86-64
# Chromium has 180 MB. For a larger file, exported names are not worth the memory.
MAX_COPY_BYTES = 256 << 20

# Five times the exports of the largest libraries. A damaged hash table may claim any number.
_MAX_SYMBOLS = 1 << 20

_DT_HASH, _DT_STRTAB, _DT_SYMTAB, _DT_STRSZ, _DT_GNU_HASH = 4, 5, 6, 10, 0x6FFFFEF5
_CODE, _DATA, _STRINGS = 1, 2, 4  # positions in the list of sections below


def copy_vdso(module: Module, mappings: Mappings, proc: str | None) -> ElfFile:
    """Copy the pages of the vDSO, which is in no file; ours if we may not read the target's.

    Raises:
        ElfError: neither can be read, or ours is another one.
    """
    mapping = mappings.of(module)
    places = [] if proc is None or mapping is None else [(proc, mapping)]
    own = Mappings("/proc/self").read()
    places += [("/proc/self", line) for line in own if line.path == VDSO_PATH]
    for place, line in places:
        size = line.end - line.start
        if size > _MAX_VDSO_BYTES:
            continue
        try:
            elf = from_bytes(read_memory(place, line.start, size))
        except ElfError:
            continue
        if elf.build_id == module.build_id or not module.build_id:
            return elf
    raise ElfError("cannot be read from the target's memory")


def copy_module(module: Module, file_start: int, proc: str) -> ElfFile:
    """Copy the loaded part of a module's file.

    Args:
        module: the module.
        file_start: runtime_addr of the file's first byte.
        proc: ``/proc/PID``.

    Raises:
        ElfError: it cannot be read, is not an ELF image, or is too large.
    """
    head = _Loaded(bytearray(read_memory(proc, file_start, 4096)))
    size = max((s.offset + s.file_size for s in head.segments if s.kind == PT_LOAD), default=0)
    if not 0 < size <= MAX_COPY_BYTES:
        raise ElfError("too large to be copied from the target's memory")
    copy = bytearray(size)
    for segment in head.segments:
        if segment.kind == PT_LOAD:
            start = module.load_bias + segment.vaddr
            part = read_memory(proc, start, segment.file_size)
            copy[segment.offset : segment.offset + len(part)] = part
    return _Loaded(copy, module.load_bias)


class _Loaded(ElfFile):
    """A loaded image, with sections that are made from the program headers."""

    def __init__(self, data: bytearray, load_bias: int = 0) -> None:
        self._load_bias = load_bias
        self._data = data
        super().__init__(self._slice, len(data))

    def _slice(self, offset: int, size: int) -> bytes:
        return bytes(self._data[offset : offset + size])

    def _read_sections(self, header: Header) -> list[Section]:
        code = [
            segment
            for segment in self.program_headers
            if segment.kind == PT_LOAD and segment.flags & PF_X and segment.file_size
        ]
        if not code:
            return []
        start = min(s.vaddr for s in code)
        end = max(s.vaddr + s.file_size for s in code)
        nothing = Section("", 0, 0, 0, 0, 0, 0)
        text = Section(".text", SHT_PROGBITS, SHF_EXECINSTR, start, code[0].offset, end - start, 0)
        sections = [nothing, text, nothing]
        sections += self._dynamic_symbols(lambda value: start <= value < end)
        for segment in self.segments:
            if segment.kind == PT_GNU_EH_FRAME:
                place = (segment.vaddr, segment.offset, segment.file_size)
                sections.append(Section(".eh_frame_hdr", SHT_PROGBITS, 0, *place, 0))
        return sections

    def _dynamic_symbols(self, is_code: Callable[[int], bool]) -> list[Section]:
        """Return ``.dynsym`` and ``.dynstr``. A symbol's section becomes code or data."""
        tags: dict[int, int] = {}
        for segment in self.segments:
            if segment.kind == PT_DYNAMIC:
                table = self._slice(segment.offset, segment.file_size)
                tags = dict(struct.iter_unpack("<QQ", table[: len(table) // 16 * 16]))
        symbols, strings = self._offset(tags.get(_DT_SYMTAB)), self._offset(tags.get(_DT_STRTAB))
        count = self._symbol_count(tags)
        if count > _MAX_SYMBOLS:
            raise ElfError("too many dynamic symbols")
        strings_size = tags.get(_DT_STRSZ, 0)
        size = count * SYMBOL.size
        if not symbols or not strings or not count:
            return []
        if max(symbols + size, strings + strings_size) > len(self._data):
            raise ElfError("the dynamic symbols are not in memory")
        for place in range(symbols, symbols + size, SYMBOL.size):
            name, info, other, section, value, length = SYMBOL.unpack_from(self._data, place)
            if 0 < section < 0xFF00:  # SHN_UNDEF, SHN_LORESERVE
                section = _CODE if is_code(value) else _DATA
                SYMBOL.pack_into(self._data, place, name, info, other, section, value, length)
        return [
            Section(".dynsym", SHT_DYNSYM, 0, 0, symbols, size, _STRINGS),
            Section(".dynstr", SHT_STRTAB, 0, 0, strings, strings_size, 0),
        ]

    def _symbol_count(self, tags: dict[int, int]) -> int:
        """Return the number of dynamic symbols, from the hash tables: no tag contains it."""
        if table := self._offset(tags.get(_DT_HASH)):
            return int.from_bytes(self._bytes(table + 4, 4, "hash table"), "little")
        if not (table := self._offset(tags.get(_DT_GNU_HASH))):
            return 0
        head = self._bytes(table, 16, "hash table")
        bucket_count, first, bloom_words = (
            int.from_bytes(head[place : place + 4], "little") for place in (0, 4, 8)
        )
        place = table + 16 + 8 * bloom_words
        buckets = self._bytes(place, 4 * bucket_count, "hash buckets")
        last = max(struct.unpack(f"<{bucket_count}I", buckets), default=0)
        if last < first:
            return first
        chains = place + 4 * bucket_count
        while (
            last < _MAX_SYMBOLS and not self._bytes(chains + 4 * (last - first), 1, "hash")[0] & 1
        ):
            last += 1
        return last + 1

    def _offset(self, addr: int | None) -> int:
        """Return the file offset of a linked or relocated address; 0 if it is not loaded."""
        if addr is None:
            return 0
        for candidate in (addr - self._load_bias, addr):
            for segment in self.segments:
                start = candidate - segment.vaddr
                if segment.kind == PT_LOAD and 0 <= start < segment.file_size:
                    return segment.offset + start
        return 0
