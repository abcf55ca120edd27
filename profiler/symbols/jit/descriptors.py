"""Find the lists in which libraries register the code that they make, for debuggers.

A library that compiles at run time holds a variable ``__jit_debug_descriptor``: LLVM does, in
numba, JAX, TensorFlow or Mesa, and some others. Where it is exported, the loader's hash table tells
where it is; else it may be in the symbol table of the file, which is looked for in large files
only: a compiler is one.

Source: GDB manual, "JIT Interface".
"""

from __future__ import annotations

import contextlib

from ...linux.file_rights import ProcessUser
from ...linux.maps import read_maps
from ...linux.process_memory import MemoryReadError, ProcessMemory
from ...linux.procfs import PROC
from ..locate.loaded_symbols import LoadedElf
from ..locate.mapped_files import MappedFile, mapped_files
from ..locate.open_file import Root
from ..locate.process_code import open_mapped
from ..object.elf import ElfError, ElfFile
from ..object.symtab import MAX_TABLE_BYTES, full_table, symbol_rows

SYMBOL = "__jit_debug_descriptor"
_DESCRIPTOR_BYTES = 24
MAX_DESCRIPTORS = 16
MAX_FILES = 4096
# LuaJIT and QEMU export it or are stripped; LLVM has 30 MB and more.
MIN_OPENED_BYTES = 4 << 20
MAX_OPENED_FILES = 128
# Variables of that size whose names are read; TensorFlow, the largest that we know, has 20 000.
_MAX_CANDIDATES = 200_000
_STT_OBJECT = 1


class Descriptors:
    """The lists of one process.

    Args:
        pid: the process.
        proc: where procfs is mounted.

    Attributes:
        places: runtime_addrs of the descriptors.
    """

    def __init__(self, pid: int, proc: str = PROC) -> None:
        self._folder = f"{proc}/{pid}"
        self._root = Root(f"{self._folder}/root", ProcessUser(pid, proc))
        self._seen: set[tuple[str, int, int]] = set()
        self._opened = 0
        self.places: list[int] = []

    def find(self) -> list[int]:
        """Look, and return all places; those that are known if the process has gone."""
        with contextlib.suppress(OSError), ProcessMemory(self._folder) as memory:
            self.look(memory)
        return self.places

    def look(self, memory: ProcessMemory) -> None:
        """Look into the files that were loaded since the last look.

        Raises:
            OSError: the process has gone.
        """
        files = mapped_files(read_maps(self._folder))[-MAX_FILES:]  # libraries lie at the end
        self._seen &= {file.key for file in files}
        for file in files:
            if file.key in self._seen:
                continue
            try:
                elf = LoadedElf(memory, file.start)
            except MemoryReadError:
                continue  # no ELF file, or one that is being loaded
            self._seen.add(file.key)
            found = elf.symbol(SYMBOL)
            place = found.addr if found is not None else self._in_file(file, elf)
            if place:
                self.places = [*self.places[-MAX_DESCRIPTORS + 1 :], place]

    def _in_file(self, file: MappedFile, elf: LoadedElf) -> int:
        """Return the descriptor of a file that does not export it; 0 if it has none."""
        if elf.end - elf.start < MIN_OPENED_BYTES or self._opened >= MAX_OPENED_FILES:
            return 0
        self._opened += 1
        image = open_mapped(self._folder, self._root, file.code)
        if image is None:
            return 0
        with contextlib.closing(image), contextlib.suppress(ElfError, OSError):
            if isinstance(image.elf, ElfFile) and (file_addr := _file_addr(image.elf)):
                return elf.load_bias + file_addr
        return 0


def _file_addr(elf: ElfFile) -> int:
    """Return where the symbol table has the descriptor; 0 if it has none.

    Names are read one by one, and only those of variables of that size: the names of TensorFlow
    have 175 MB.
    """
    found = full_table(elf)
    if found is None or found[0].size > MAX_TABLE_BYTES:
        return 0
    table, names = found
    rows = symbol_rows(elf.data(table))
    is_wanted = (rows["info"] & 15 == _STT_OBJECT) & (rows["size"] == _DESCRIPTOR_BYTES)
    rows = rows[is_wanted & (rows["section"] != 0)][:_MAX_CANDIDATES]
    wanted = SYMBOL.encode() + b"\0"
    for place, value in rows[["name", "value"]].tolist():
        if elf.part(names, place, len(wanted)) == wanted:
            return int(value)
    return 0
