"""Find what a stripped Ruby does not export since 3.2: its virtual machine, and ``rb_vm_exec``.

The variable that points to the virtual machine is searched for in the data of the file:
what it points to has a list of ractors with threads that point back to it. ``rb_vm_exec`` is what
two exported functions end with a jump to: ``rb_iseq_eval`` and ``rb_iseq_eval_main`` (vm.c).
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import numpy as np

from ....linux.elf_headers import PT_LOAD
from ....linux.process_memory import MemoryReadError, ProcessMemory
from ...locate.loaded_symbols import LoadedElf, LoadedSymbol
from ...object.elf import ElfError, ElfFile

_ENDS_WITH_IT = ("rb_iseq_eval", "rb_iseq_eval_main")
_MAX_CODE_BYTES = 4096  # of each: 100 to 500
_JUMP, _JUMP_BYTES = b"\xe9", 5
_PF_W = 2
_MAX_DATA_BYTES = 4 << 20
_MAX_CANDIDATES = 1 << 16
_LOWEST, _HIGHEST = 1 << 16, 1 << 47


def find_loop(memory: ProcessMemory, elf: LoadedElf, opened: ElfFile | None) -> LoadedSymbol | None:
    """Return where ``rb_vm_exec`` is; None if that is not clear."""
    table = opened.fde_table() if opened is not None else None
    if table is None:
        return None
    common: set[int] | None = None
    for name in _ENDS_WITH_IT:
        symbol = elf.symbol(name)
        if symbol is None or not 0 < symbol.size <= _MAX_CODE_BYTES:
            return None
        try:
            targets = _jumps_out(memory.read(symbol.addr, symbol.size), symbol.addr)
        except MemoryReadError:
            return None
        common = targets if common is None else common & targets
    addresses = [each - elf.load_bias for each in sorted(common or ())]
    try:
        functions = table.functions_at(addresses)
    except ElfError:
        return None
    begun = [
        found
        for address, found in zip(addresses, functions, strict=True)
        if found is not None and found[0] == address
    ]
    if len(begun) != 1:
        return None
    start, end = begun[0]
    return LoadedSymbol(start + elf.load_bias, end - start)


def _jumps_out(code: bytes, addr: int) -> set[int]:
    """Return where jumps of a function lead, outside of it."""
    found = set()
    for match in re.finditer(re.escape(_JUMP), code):
        end = match.start() + _JUMP_BYTES
        if end <= len(code):
            target = addr + end + int.from_bytes(code[end - 4 : end], "little", signed=True)
            if not addr <= target < addr + len(code):
                found.add(target)
    return found


def find_machine(
    memory: ProcessMemory, elf: LoadedElf, layout: Mapping[str, int]
) -> LoadedSymbol | None:
    """Return the variable that points to the virtual machine; None if there is none yet."""
    for header in elf.program_headers:
        if header.kind != PT_LOAD or not header.flags & _PF_W:
            continue
        start = (elf.load_bias + header.vaddr + 7) & ~7
        try:
            data = memory.read_some(start, min(header.memory_size, _MAX_DATA_BYTES) & ~7)
        except MemoryReadError:
            continue
        words = np.frombuffer(data[: len(data) // 8 * 8], "<u8")
        fits = (words >= _LOWEST) & (words < _HIGHEST) & (words % 8 == 0)
        # What the file itself holds is no virtual machine.
        fits &= (words < elf.start) | (words >= elf.end)
        places: list[int] = np.flatnonzero(fits)[:_MAX_CANDIDATES].tolist()
        seen: set[int] = set()
        for index in places:
            machine = int(words[index])
            if machine in seen:
                continue
            seen.add(machine)
            try:
                if _is_machine(memory, layout, machine):
                    return LoadedSymbol(start + 8 * index, 8)
            except MemoryReadError:
                continue
    return None


def _is_machine(memory: ProcessMemory, layout: Mapping[str, int], machine: int) -> bool:
    head = machine + layout["vm_ractors"]
    node = memory.word(head)
    if node == head or not _LOWEST <= node < _HIGHEST or memory.word(node + 8) != head:
        return False
    ractor = node - layout["ractor_node"]
    node = memory.word(ractor + layout["ractor_threads"])
    if node == ractor + layout["ractor_threads"]:
        return False
    thread = node - layout["thread_node"]
    return (
        memory.word(thread + layout["thread_interpreter"]) == machine
        and memory.word(thread + layout["thread_ractor"]) == ractor
    )
