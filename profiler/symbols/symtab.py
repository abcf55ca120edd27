"""Symbol tables of one module as an index: file_addr → symbol.

Sizes are respected. A symbol answers for the addresses inside its ``st_size``; one without a size
(assembly) only in a full symbol table, up to the next symbol and never beyond its section. In a
file stripped to ``.dynsym`` the space after an exported function belongs to private ones, so
there a symbol without a size answers for nothing.

Source: System V ABI, "Symbol Table"; x86-64 psABI, "Procedure Linkage Table".
"""

from __future__ import annotations

import re
import struct
from bisect import bisect_right
from itertools import accumulate
from typing import NamedTuple

from flametap.symbols.demangle import strip_clone
from flametap.symbols.elf import (
    EM_X86_64,
    SHF_EXECINSTR,
    SHT_NOBITS,
    SHT_RELA,
    ElfError,
    ElfFile,
)
from flametap.symbols.objectfile import Section

_SYMBOL = struct.Struct("<IBBHQQ")
_RELA = struct.Struct("<QQq")
_STT_NOTYPE, _STT_FUNC, _STT_GNU_IFUNC = 0, 2, 10
_SHN_UNDEF, _SHN_LORESERVE = 0, 0xFF00
_GLOB_DAT, _JUMP_SLOT, _IRELATIVE = 6, 7, 37  # R_X86_64_*
# jmp *disp32(%rip), with `bnd` before it in files built for MPX or old CET; `endbr64` may come
# first.
_PLT_JUMP = re.compile(rb"(?:\xf3\x0f\x1e\xfa)?\xf2?\xff\x25(....)", re.DOTALL)
_PLT_PUSH = re.compile(rb"(?:\xf3\x0f\x1e\xfa)?\x68(....)", re.DOTALL)  # lazy IBT slot: push index


class Symbol(NamedTuple):
    """A name and the file_addr where it starts."""

    name: str  # mangled, clone marks and version removed
    start: int


# (start, size, end of its section, rank, number of its table, offset of its name in the string
# table). Of two names for one address the one of lower rank is preferred. A plain tuple: 150 000
# are made for node, where named ones would cost 0.1 s more.
_Entry = tuple[int, int, int, int, int, int]


class SymbolIndex:
    """Function symbols of a module, from tables of one or more ELF files with the same addresses.

    Args:
        tables: (file, section name) pairs; sections that do not exist are passed over.

    Raises:
        ElfError: a table is damaged.
    """

    def __init__(self, tables: list[tuple[ElfFile, str]]) -> None:
        self._strings: list[bytes] = []
        entries: list[_Entry] = []
        for elf, name in tables:
            section = elf.section(name)
            if section is not None and section.kind != SHT_NOBITS and section.size:
                entries += self._read_table(elf, section, sizeless=name != ".dynsym")
        entries.sort()
        self._entries = entries
        self._starts = [entry[0] for entry in entries]
        # Highest end of this and all earlier symbols: says when looking further back is of no use.
        self._reach = list(accumulate((entry[0] + entry[1] for entry in entries), max))

    def __len__(self) -> int:
        return len(self._entries)

    def lookup(self, file_addr: int) -> Symbol | None:
        """The symbol that covers ``file_addr``; the innermost if they nest."""
        last = bisect_right(self._starts, file_addr) - 1
        index = last
        while index >= 0 and self._reach[index] > file_addr:
            start, size = self._entries[index][:2]
            if start + size > file_addr:
                return self._symbol(start, size, file_addr)
            index -= 1
        if last >= 0:
            start, size, section_end = self._entries[last][:3]
            if size == 0 and file_addr < section_end:
                return self._symbol(start, size, file_addr)
        return None

    def _symbol(self, start: int, size: int, file_addr: int) -> Symbol:
        """The best of the names for the same start that cover the address: ``read``, not
        ``__GI___read``.
        """
        index = bisect_right(self._starts, start) - 1
        names = []
        while index >= 0 and self._starts[index] == start:
            _, other_size, _, rank, table, offset = self._entries[index]
            if other_size == size or start + other_size > file_addr:
                name = strip_clone(self._name(table, offset))
                names.append((rank, len(name) - len(name.lstrip("_")), len(name), name))
            index -= 1
        return Symbol(min(names)[3], start)

    def _name(self, table: int, offset: int) -> str:
        strings = self._strings[table]
        end = strings.find(b"\0", offset)
        return strings[offset : end if end >= 0 else None].decode("utf-8", "replace")

    def _read_table(self, elf: ElfFile, section: Section, *, sizeless: bool) -> list[_Entry]:
        if section.link >= len(elf.sections):
            raise ElfError(f"{section.name} has no string table")
        strings = elf.data(elf.sections[section.link])
        data = elf.data(section)
        data = data[: len(data) - len(data) % _SYMBOL.size]
        table = len(self._strings)
        self._strings.append(strings)
        executable = [s.flags & SHF_EXECINSTR != 0 for s in elf.sections]
        ends = [s.addr + s.size for s in elf.sections]
        entries = []
        for name, info, _, index, value, size in _SYMBOL.iter_unpack(data):
            kind = info & 15
            if (
                (kind != _STT_FUNC and kind != _STT_NOTYPE and kind != _STT_GNU_IFUNC)
                or index == _SHN_UNDEF
                or index >= _SHN_LORESERVE
                or index >= len(executable)
                or not executable[index]
                or (not size and not sizeless)
                or name >= len(strings)
            ):
                continue
            first = strings[name]
            if first == 0 or (kind == _STT_NOTYPE and first in b"$."):
                continue  # "$x" and ".L12" mark places in the code, not functions
            rank = (2 if kind == _STT_NOTYPE else 0) + (info >> 4 == 0)
            entries.append((value, size, ends[index], rank, table, name))
        return entries


class PltNames:
    """Names of the stubs in ``.plt``, ``.plt.sec`` and ``.plt.got`` (x86-64).

    A stub jumps through a slot of the global offset table; the relocation of that slot names the
    function.
    """

    def __init__(self, elf: ElfFile, index: SymbolIndex) -> None:
        self._elf = elf
        self._index = index
        self._sections = [
            s
            for s in elf.sections
            if elf.machine == EM_X86_64
            and s.name in (".plt", ".plt.sec", ".plt.got", ".iplt")
            and s.kind != SHT_NOBITS
        ]
        self._slots: dict[int, str] | None = None
        self._in_order: list[str] = []

    def lookup(self, file_addr: int) -> str | None:
        """The symbol that the stub at ``file_addr`` calls; ``None`` outside of stubs and for their
        common header."""
        for section in self._sections:
            if section.addr <= file_addr < section.addr + section.size:
                return self._stub_name(section, file_addr)
        return None

    def _stub_name(self, section: Section, file_addr: int) -> str | None:
        code = self._elf.data(section)
        # .plt.got has stubs of 8 bytes in files built without IBT, all others have 16.
        stub_size = 8 if section.name == ".plt.got" and code[:2] == b"\xff\x25" else 16
        offset = (file_addr - section.addr) // stub_size * stub_size
        stub = code[offset : offset + stub_size]
        slots = self._slot_names()
        jump = _PLT_JUMP.match(stub)
        if jump:
            after = section.addr + offset + jump.end()
            return slots.get(after + struct.unpack("<i", jump[1])[0])
        push = _PLT_PUSH.match(stub)
        if push:
            position = struct.unpack("<I", push[1])[0]
            return self._in_order[position] if position < len(self._in_order) else None
        return None

    def _slot_names(self) -> dict[int, str]:
        """file_addr of a GOT slot → function that it holds the address of."""
        if self._slots is None:
            self._slots = {}
            for section in self._elf.sections:
                if section.kind == SHT_RELA and section.name in (".rela.plt", ".rela.dyn"):
                    names = self._relocations(section)
                    self._slots.update(names)
                    if section.name == ".rela.plt":
                        self._in_order = list(names.values())
        return self._slots

    def _relocations(self, section: Section) -> dict[int, str]:
        symbols = self._elf.section(".dynsym")
        if symbols is None or symbols.link >= len(self._elf.sections):
            return {}
        table = self._elf.data(symbols)
        strings = self._elf.data(self._elf.sections[symbols.link])
        data = self._elf.data(section)
        names: dict[int, str] = {}
        for slot, info, addend in _RELA.iter_unpack(data[: len(data) - len(data) % _RELA.size]):
            kind, position = info & 0xFFFFFFFF, (info >> 32) * _SYMBOL.size
            if kind in (_JUMP_SLOT, _GLOB_DAT) and position + _SYMBOL.size <= len(table):
                start = struct.unpack_from("<I", table, position)[0]
                name = strings[start : strings.find(b"\0", start)]
                names[slot] = strip_clone(name.decode("utf-8", "replace"))
            elif kind == _IRELATIVE:
                resolver = self._index.lookup(addend)
                names[slot] = resolver.name if resolver else f"ifunc_{addend:x}"
        return names
