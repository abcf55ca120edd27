"""Find the names of the stubs through which a module calls functions of other modules.

Source: x86-64 psABI, "Procedure Linkage Table".
"""

from __future__ import annotations

import re
import struct

import numpy as np

from ...linux.elf_headers import EM_X86_64, SHT_NOBITS, SHT_RELA
from ..names.demangle import strip_clone
from .object_file import ObjectFile, Section
from .symtab import SymbolIndex, string_at

_RELA_BYTES = 24
_SYMBOL_BYTES = 24
MAX_PLT_BYTES = 16 << 20  # a million stubs
_GLOB_DAT, _JUMP_SLOT, _IRELATIVE = 6, 7, 37  # R_X86_64_*
# jmp *disp32(%rip), with `bnd` before it in files built for MPX or old CET; `endbr64` may come
# first.
_PLT_JUMP = re.compile(rb"(?:\xf3\x0f\x1e\xfa)?\xf2?\xff\x25(....)", re.DOTALL)
_PLT_PUSH = re.compile(rb"(?:\xf3\x0f\x1e\xfa)?\x68(....)", re.DOTALL)  # lazy IBT slot: push index


class PltNames:
    """Names of the stubs in ``.plt``, ``.plt.sec`` and ``.plt.got`` (x86-64).

    A stub jumps through a slot of the global offset table; the relocation of that slot names the
    function.
    """

    def __init__(self, elf: ObjectFile, index: SymbolIndex) -> None:
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
        self._code: dict[int, bytes] = {}

    def lookup(self, file_addr: int) -> str | None:
        """Return the symbol that the stub at ``file_addr`` calls.

        Return ``None`` outside of stubs and for their common header.
        """
        for section in self._sections:
            if section.addr <= file_addr < section.addr + section.size:
                return self._stub_name(section, file_addr)
        return None

    def slot(self, file_addr: int) -> str | None:
        """Return the symbol whose address is in the GOT slot at ``file_addr``."""
        return self._slot_names().get(file_addr) if self._sections else None

    def _stub_name(self, section: Section, file_addr: int) -> str | None:
        code = self._code.get(section.addr)
        if code is None:
            code = self._elf.data(section) if section.size <= MAX_PLT_BYTES else b""
            self._code[section.addr] = code
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
        """Return for each GOT slot (file_addr) the function whose address it holds."""
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
        table = np.frombuffer(self._elf.data(symbols), np.uint8)
        strings = self._elf.data(self._elf.sections[symbols.link])
        data = self._elf.data(section)
        rows = np.frombuffer(data, "<u8", len(data) // _RELA_BYTES * 3).reshape(-1, 3)
        kinds = rows[:, 1] & 0xFFFFFFFF
        # A few thousand of a million relocations are for slots of functions.
        rows = rows[np.isin(kinds, (_JUMP_SLOT, _GLOB_DAT, _IRELATIVE))]
        names: dict[int, str] = {}
        for slot, info, addend in rows.tolist():
            place = (info >> 32) * _SYMBOL_BYTES
            if info & 0xFFFFFFFF == _IRELATIVE:
                resolver = self._index.lookup(addend)
                names[slot] = resolver.name if resolver else f"ifunc_{addend:x}"
            elif place + _SYMBOL_BYTES <= len(table):
                start = int.from_bytes(table[place : place + 4].tobytes(), "little")
                names[slot] = strip_clone(string_at(strings, start))
        return names
