"""Find CPython in one loaded file: where its state, its types and its evaluation loop are.

By symbols, never by file name: ``_PyRuntime`` among the exported ones, which even stripped builds
keep; else, with the file at hand, in its symbol table, or in the section ``.PyRuntime`` (3.10 and
newer). PyPy has none of them.

The process and its files may be hostile: what does not fit is no interpreter.
"""

from __future__ import annotations

from dataclasses import dataclass

from ....linux.process_memory import MemoryReadError, ProcessMemory
from ...locate.loaded_symbols import LoadedElf, LoadedSymbol
from ...object.elf import ElfError, ElfFile
from ..file_symbols import file_symbols
from .version import Version, find_version

_RUNTIME, _CODE_TYPE, _STRING_TYPE = "_PyRuntime", "PyCode_Type", "PyUnicode_Type"
_EVAL, _EVAL_COLD = "_PyEval_EvalFrameDefault", "_PyEval_EvalFrameDefault.cold"
NAMES = (_RUNTIME, _CODE_TYPE, _STRING_TYPE, _EVAL)
_SECTION = ".PyRuntime"
_MAX_EVAL_BYTES = 1 << 20  # it has 35 to 56 kB
_MAX_RUNTIME_BYTES = 1 << 22  # it has 1 to 300 kB


@dataclass(frozen=True)
class Location:
    """Where one CPython is. All are runtime_addrs; 0 stands for what was not found."""

    version: Version | None
    runtime: int  # _PyRuntime
    runtime_bytes: int  # its size
    code_type: int  # PyCode_Type
    string_type: int  # PyUnicode_Type
    image: tuple[int, int]  # start and end of its file's memory
    eval_loop: tuple[int, int]  # _PyEval_EvalFrameDefault
    eval_cold: tuple[int, int]  # its part for rare cases


def is_exported(elf: LoadedElf) -> bool:
    """Return True if a loaded file exports the state of a CPython."""
    return elf.symbol(_RUNTIME) is not None


def locate(
    memory: ProcessMemory, elf: LoadedElf, path: str, file: ElfFile | None
) -> Location | None:
    """Locate the CPython in a loaded file; None if there is none.

    Args:
        memory: the memory of the process.
        elf: the file, as it is loaded.
        path: of the file.
        file: the file itself, for what is not exported; None if it cannot be opened.
    """
    symbols = _in_file(file, elf.load_bias)
    for name in NAMES:
        if symbol := elf.symbol(name):
            symbols[name] = symbol
    runtime = symbols.get(_RUNTIME)
    if runtime is None:
        return None
    eval_loop, eval_cold = _range(symbols.get(_EVAL)), _range(symbols.get(_EVAL_COLD))
    # Where a program has a copy of the library's variable (a copy relocation), the library counts.
    if _EVAL not in symbols and not _is_described(memory, runtime.addr):
        return None
    nothing = LoadedSymbol(0, 0)
    return Location(
        find_version(memory, elf, runtime.addr, path),
        runtime.addr,
        runtime.size if runtime.size <= _MAX_RUNTIME_BYTES else 0,
        symbols.get(_CODE_TYPE, nothing).addr,
        symbols.get(_STRING_TYPE, nothing).addr,
        (elf.start, elf.end),
        eval_loop,
        eval_cold,
    )


def types_of_program(elf: LoadedElf) -> tuple[int, int]:
    """Return where a program has PyCode_Type and PyUnicode_Type, 0 if it has none.

    A program at a fixed address that names the types of a library has them copied into itself, and
    the library then uses the copies.
    """
    found = [elf.symbol(name) for name in (_CODE_TYPE, _STRING_TYPE)]
    code_type, string_type = (0 if symbol is None else symbol.addr for symbol in found)
    return code_type, string_type


def may_hold(file: ElfFile) -> bool:
    """Return True if a file may hold a CPython that it does not export.

    Raises:
        ElfError: a table is damaged.
    """
    return file.section(_SECTION) is not None or bool(file_symbols(file, _RUNTIME + "\0"))


def _in_file(file: ElfFile | None, load_bias: int) -> dict[str, LoadedSymbol]:
    """Return what the file says itself, by the names above."""
    if file is None:
        return {}
    found: dict[str, LoadedSymbol] = {}
    section = file.section(_SECTION)
    if section is not None and section.addr:
        found[_RUNTIME] = LoadedSymbol(load_bias + section.addr, section.size)
    try:
        symbols = file_symbols(file, *(f"{name}\0" for name in NAMES), _EVAL_COLD)
    except ElfError:
        symbols = []
    for name, file_addr, size in symbols:
        key = _EVAL_COLD if name.startswith(_EVAL_COLD) else name
        found.setdefault(key, LoadedSymbol(load_bias + file_addr, size))
    return found


def _range(symbol: LoadedSymbol | None) -> tuple[int, int]:
    if symbol is None or not 0 < symbol.size <= _MAX_EVAL_BYTES:
        return 0, 0
    return symbol.addr, symbol.addr + symbol.size


def _is_described(memory: ProcessMemory, runtime_addr: int) -> bool:
    try:
        return memory.read(runtime_addr, 8) == b"xdebugpy"
    except MemoryReadError:
        return False
