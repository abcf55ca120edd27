"""Provide lines for functions that have no entry in the debug information.

GCC merges equal functions. If their addresses must differ, it leaves a second body that has rows in
the line table but no entry (libpython: 0.3 % of the code). symbolic returns lines only within
functions. So we write these bodies as functions without a name; the symbol table has their names.

The list of address ranges of each unit (``.debug_aranges``) leads to its line table without reading
the units. clang does not write that list, but does not merge functions either.

Source: DWARF 5, section 6.1.2.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from ...recording.names.inline_chains import UNCLAIMED, Chain
from ..object.object_file import ObjectFile
from ..object.symtab import symbol_rows
from . import constants as dw
from .sections import load, read_section
from .units import Unit
from .writer import Writer, line_table_of

_STT_FUNC = 2
_HIGHEST = 1 << 62
_MAX_FUNCTIONS = 1 << 17  # with more, the debug information as a whole is useless

_Numbers = NDArray[np.int64]


def unclaimed(elf: ObjectFile, lookup_many: Callable[[Sequence[int]], list[Chain]]) -> bytes | None:
    """Return an ELF file with DWARF for the functions of ``.symtab`` without lines.

    Args:
        elf: the file with DWARF and symbols.
        lookup_many: returns the known inline chains at addresses.

    Returns:
        ``None`` if all functions have lines, or none could be added.

    Raises:
        DwarfError, ObjectError, IndexError: damaged.
    """
    starts, ends, units = _aranges(read_section(elf, ".debug_aranges"))
    functions = _functions(elf)
    if not len(starts) or not len(functions):
        return None
    places = np.searchsorted(starts, functions[:, 0], side="right") - 1
    inside = (places >= 0) & (functions[:, 0] < ends[places])
    functions, places = functions[inside], places[inside]
    chains = lookup_many(functions[:, 0].tolist())
    without = np.array([not chain for chain in chains], bool)
    if not without.any() or without.sum() > _MAX_FUNCTIONS:
        return None
    by_unit: dict[int, list[tuple[int, int]]] = {}
    for (start, end), unit in zip(
        functions[without].tolist(), units[places[without]].tolist(), strict=True
    ):
        by_unit.setdefault(unit, []).append((start, end))
    return _write(elf, by_unit)


def _write(elf: ObjectFile, by_unit: dict[int, list[tuple[int, int]]]) -> bytes | None:
    file = load(elf)
    line = read_section(elf, ".debug_line")
    writer = Writer(file.strings)
    written = 0
    for unit in file.units:
        functions = by_unit.get(unit.offset)
        line_table = None if functions is None else line_table_of(line, unit.root[1])
        if functions is None or line_table is None:
            continue
        writer.begin_unit(_text(unit, dw.AT_NAME), _text(unit, dw.AT_COMP_DIR), line_table)
        for function in functions:
            writer.function(UNCLAIMED.encode(), [function])
            writer.end()
        writer.end_unit([])
        written += len(functions)
    if not written:
        return None
    return writer.elf(elf.machine, elf.base_addr, line, file.line_strings)


def _text(unit: Unit, attribute: int) -> bytes:
    return unit.text(unit.root[1].get(attribute)) or b""


def _functions(elf: ObjectFile) -> _Numbers:
    """Return start and end of each function in ``.symtab``."""
    rows = symbol_rows(read_section(elf, ".symtab"))
    rows = rows[
        (rows["info"] & 15 == _STT_FUNC)
        & (rows["section"] != 0)
        & (rows["size"] > 0)
        & (rows["size"] < _HIGHEST)
        & (rows["value"] < _HIGHEST)
    ]
    pairs = np.stack((rows["value"], rows["value"] + rows["size"]), axis=1).astype(np.int64)
    return np.unique(pairs, axis=0)


def _aranges(data: bytes) -> tuple[_Numbers, _Numbers, _Numbers]:
    """Return start, end and unit (an offset of ``.debug_info``) of each range, sorted by start."""
    parts: list[_Numbers] = []
    offset = 0
    while offset + 12 <= len(data):
        length, version, unit, address_size, segment_size = struct.unpack_from(
            "<IHIBB", data, offset
        )
        end = offset + 4 + length
        if length == 0xFFFFFFFF or end > len(data):
            break  # 64-bit DWARF, or damaged
        if version == 2 and address_size == 8 and segment_size == 0:
            pairs = np.frombuffer(data[offset + 16 : end], "<u8")  # aligned to twice an address
            pairs = pairs[: len(pairs) // 2 * 2].reshape(-1, 2)
            pairs = pairs[(pairs[:, 1] > 0) & (pairs < _HIGHEST).all(axis=1)].astype(np.int64)
            parts.append(
                np.column_stack((pairs[:, 0], pairs.sum(axis=1), np.full(len(pairs), unit)))
            )
        offset = end
    table = np.concatenate(parts) if parts else np.empty((0, 3), np.int64)
    table = table[np.argsort(table[:, 0], kind="stable")]
    return table[:, 0], table[:, 1], table[:, 2]
