"""Find the names of variables that instructions read or write by address.

Source: System V ABI, "Symbol Table".
"""

from __future__ import annotations

import numpy as np

from ...linux.elf_headers import SHT_NOBITS
from ..names.demangle import demangle
from .elf import ElfFile
from .object_file import ObjectFile
from .symtab import ELF_SYMBOL, string_at, symbol_rows

_STT_OBJECT = 1


class DataSymbols:
    """The variables of an ELF file; of other files, none.

    Raises:
        ObjectError: a table is damaged, or can no longer be read.
    """

    def __init__(self, file: ObjectFile) -> None:
        self._strings = b""
        self._rows = np.empty(0, ELF_SYMBOL)
        section = file.section(".symtab") or file.section(".dynsym")
        if not isinstance(file, ElfFile) or section is None or section.kind == SHT_NOBITS:
            return
        if section.link >= len(file.sections):
            return
        self._strings = file.data(file.sections[section.link])
        rows = symbol_rows(file.data(section))
        rows = rows[
            (rows["info"] & 15 == _STT_OBJECT) & (rows["section"] != 0) & (rows["size"] > 0)
        ]
        self._rows = rows[np.argsort(rows["value"], kind="stable")]

    def name(self, file_addr: int) -> str:
        """Return the variable at an address, ``table+0x8``; ``""`` if there is none."""
        rows = self._rows
        if not 0 <= file_addr < 1 << 64:  # negative for the vDSO's data, which precede the vDSO
            return ""
        at = int(np.searchsorted(rows["value"], np.uint64(file_addr), side="right")) - 1
        if at < 0:
            return ""
        offset = file_addr - int(rows["value"][at])
        if offset >= int(rows["size"][at]):
            return ""
        name = demangle(string_at(self._strings, int(rows["name"][at])))[0]
        return f"{name}+{offset:#x}" if offset else name
