"""Find what names methods in a running Ruby: the table of symbols, and the keys of class names.

Neither is exported, so both are recognised by what they hold. The table of symbols is a variable of
the interpreter's file, which is searched for: operators have their own characters as numbers.
In 3.1 a class keeps its name in a hash table under a number, which that of ``Object`` tells.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ....linux.elf_headers import PT_LOAD
from ....linux.process_memory import MemoryReadError, ProcessMemory
from ...locate.loaded_symbols import LoadedElf
from .objects import element, text_of, variables

_OPERATORS = "+-*/<>"
_UNIT = 512  # symbols of one array, two elements each
_PF_W = 2
_MAX_DATA_BYTES = 4 << 20
_LEAST_SYMBOLS, _MOST_SYMBOLS = 1000, 1 << 26
_LOWEST, _HIGHEST = 1 << 16, 1 << 47  # addresses
_MAX_CANDIDATES = 1000
_OBJECT = "rb_cObject"
_CLASS = 8  # in any object


def find_symbols(memory: ProcessMemory, elf: LoadedElf, layout: Mapping[str, int]) -> int:
    """Return the runtime_addr of the variable that points to the names of all symbols; 0 for none.

    ``rb_symbols_t``: how many there are (u32), a hash table, and the array.
    """
    for header in elf.program_headers:
        if header.kind != PT_LOAD or not header.flags & _PF_W:
            continue
        start = (elf.load_bias + header.vaddr + 7) & ~7
        try:
            data = memory.read_some(start, min(header.memory_size, _MAX_DATA_BYTES) & ~7)
        except MemoryReadError:
            continue
        words = np.frombuffer(data[: len(data) // 8 * 8], "<u8")
        count, table, names = words[:-2], words[1:-1], words[2:]
        fits = (count >= _LEAST_SYMBOLS) & (count < _MOST_SYMBOLS)
        for pointer in (table, names):
            fits &= (pointer >= _LOWEST) & (pointer < _HIGHEST) & (pointer % 8 == 0)
        places: list[int] = np.flatnonzero(fits)[:_MAX_CANDIDATES].tolist()
        for index in places:
            try:
                if _are_symbols(memory, layout, int(names[index])):
                    return start + 8 * (index + 2)
            except MemoryReadError:
                continue
    return 0


def _are_symbols(memory: ProcessMemory, layout: Mapping[str, int], names: int) -> bool:
    unit = element(memory, names, 0)
    if not unit:
        return False
    for operator in _OPERATORS:
        string = element(memory, unit, ord(operator) % _UNIT * 2)
        if not string or text_of(memory, layout, string) != operator.encode():
            return False
    return True


def find_class_keys(
    memory: ProcessMemory, elf: LoadedElf, layout: Mapping[str, int]
) -> dict[str, int]:
    """Return how a class finds its path and whose singleton class it is.

    By the names of ``abi.RUBY_RECIPE_NAMES``; nothing if that is not found.
    """
    if "class_variables" not in layout:
        return {name: layout[name] for name in ("class_path", "class_attached")}
    symbol = elf.symbol(_OBJECT)
    if symbol is None:
        return {}
    found = {}
    try:
        of_all = memory.word(symbol.addr)
        for key, value in _variables_of(memory, layout, of_all):
            if _is_pointer(value) and text_of(memory, layout, value) == b"Object":
                found["class_path"] = key
                break
        for key, value in _variables_of(memory, layout, memory.word(of_all + _CLASS)):
            if value == of_all:
                found["class_attached"] = key
                break
    except MemoryReadError:
        pass
    return found if len(found) == 2 else {}


def _variables_of(
    memory: ProcessMemory, layout: Mapping[str, int], owner: int
) -> list[tuple[int, int]]:
    extension = memory.word(owner + layout["class_extension"])
    return list(variables(memory, memory.word(extension + layout["class_variables"])))


def _is_pointer(value: int) -> bool:
    return _LOWEST <= value < _HIGHEST and value % 8 == 0
