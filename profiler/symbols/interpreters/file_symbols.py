"""Look up symbols of any kind by name in the symbol table of a file.

For the few names that are not exported: data, and parts of functions, which the index of function
names (``object.symtab``) leaves out or merges. Bounded: a string table that is too large is not
searched.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..object.elf import ElfFile
from ..object.symtab import MAX_TABLE_BYTES, full_table, string_at, symbol_rows

MAX_STRING_BYTES = 32 << 20  # of names; python3.13 with all its own has 0.3 MB
_MAX_PLACES = 64  # at which a text occurs
_MAX_VALUE = 1 << 62


class FileSymbol(NamedTuple):
    """A symbol of a file."""

    name: str
    file_addr: int
    size: int  # bytes, 0 if unknown


def file_symbols(elf: ElfFile, *starts: str) -> list[FileSymbol]:
    """Return the symbols in ``.symtab`` whose names begin with one of ``starts``.

    An empty list for a stripped file, and for one whose names are too many to be searched.

    Raises:
        ElfError: a table is damaged, or can no longer be read.
    """
    found = full_table(elf)
    if found is None:
        return []
    table, names = found
    if names.size > MAX_STRING_BYTES or table.size > MAX_TABLE_BYTES:
        return []
    strings = elf.data(names)
    places: list[int] = []
    for start in starts:
        place = -1
        for _ in range(_MAX_PLACES):
            place = strings.find(b"\0" + start.encode(), place + 1)
            if place < 0:
                break
            places.append(place + 1)
    if not places:
        return []
    rows = symbol_rows(elf.data(table))
    rows = rows[np.isin(rows["name"], places) & (rows["section"] != 0)]
    rows = rows[rows["value"] < _MAX_VALUE]
    return [
        FileSymbol(string_at(strings, name), value, size)
        for name, value, size in rows[["name", "value", "size"]].tolist()
    ]
