"""Index the symbol tables of one module: file_addr → symbol.

Sizes are respected. A symbol covers the addresses within its ``st_size``. A symbol without a size
(assembly) covers the code up to the next symbol, but never beyond its section, and only in a full
symbol table. In a file stripped to ``.dynsym``, the space after an exported function belongs to
private functions, so there a symbol without a size covers nothing.

Tables are read and searched with numpy: node has 150 000 symbols, and first names wait for them.

Source: System V ABI, "Symbol Table".
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...linux.elf_headers import SHF_EXECINSTR, SHT_NOBITS, SHT_SYMTAB
from ...recording.names.inline_chains import Indexes
from ..names.demangle import strip_clone
from ..names.limits import MAX_MODULE_CHARACTERS, Budget
from .elf import ElfError
from .macho import MachOFile
from .macho_symbols import function_symbols
from .object_file import ObjectFile, Section

ELF_SYMBOL = np.dtype(
    [
        ("name", "<u4"),
        ("info", "u1"),
        ("other", "u1"),
        ("section", "<u2"),
        ("value", "<u8"),
        ("size", "<u8"),
    ]
)
# Of two names for one address, the one with the lower rank is preferred. ``name`` is an offset in
# the string table, ``end`` the end of the section.
ROWS = np.dtype(
    [
        ("start", "i8"),
        ("size", "i8"),
        ("end", "i8"),
        ("rank", "u1"),
        ("table", "u1"),
        ("name", "i8"),
    ]
)
_STT_NOTYPE, _STT_FUNC, _STT_GNU_IFUNC = 0, 2, 10
_SHN_UNDEF, _SHN_LORESERVE = 0, 0xFF00
# Far above any address of a process, and low enough that a start and a size can be added.
_MAX_ADDR = 1 << 61
MAX_TABLE_BYTES = 256 << 20  # ten million symbols; an unstripped chromium has two million
_STEPS_BACK = 16  # with deeper nesting, symbols are searched one address at a time
_MAX_ALIASES = 64  # names of one start that are compared
_MAX_SEARCHED_BYTES = 1 << 26  # some hundredths of a second
_COLD = re.compile(r"\.cold(?:\.\d+)?$")  # GCC; clang
_MAX_NAME_BYTES = 1 << 15  # the longest name that we have found in a C++ program has 9 KB
_SHORT_NAME_BYTES = 64  # of all names once those of the module take too much memory


class Symbol(NamedTuple):
    """A name and the file_addr where it starts."""

    name: str  # mangled, without clone suffixes and version
    start: int


class SymbolIndex:
    """Function symbols of a module, from tables of one or more files with the same addresses.

    Args:
        tables: (file, section name) pairs; sections that do not exist are skipped.
        budget: the bytes for the tables of all modules.

    Raises:
        ElfError: a table is damaged.
    """

    def __init__(self, tables: list[tuple[ObjectFile, str]], budget: Budget | None = None) -> None:
        self._strings: list[bytes] = []
        parts = [np.empty(0, ROWS)]
        for elf, name in tables:
            if isinstance(elf, MachOFile):
                table = function_symbols(elf)
                _take(budget, len(table.strings) + len(table.starts) * ROWS.itemsize)
                rows = np.zeros(len(table.starts), ROWS)
                rows["start"], rows["size"], rows["end"] = table.starts, table.sizes, table.ends
                rows["rank"], rows["name"] = table.ranks, table.names
                rows["table"] = len(self._strings)
                self._strings.append(table.strings)
                parts.append(rows)
                continue
            section = elf.section(name)
            if section is not None and section.kind != SHT_NOBITS and section.size:
                if section.link < len(elf.sections):
                    _take(budget, section.size + elf.sections[section.link].size)
                rows, strings = _read_table(elf, section, sizeless=name != ".dynsym")
                rows["table"] = len(self._strings)
                self._strings.append(strings)
                parts.append(rows)
        rows = np.concatenate(parts)
        rows = rows[np.lexsort((rows["size"], rows["start"]))]
        self._rows = rows
        # Contiguous copies: a search in a column of packed rows takes three times as long.
        self._starts = np.ascontiguousarray(rows["start"])
        self._ends = self._starts + rows["size"]
        # Highest end of this and all earlier symbols: shows when to stop searching backwards.
        self._reach = np.maximum.accumulate(self._ends) if len(rows) else self._ends
        # By the first and the last of the rows from which a symbol was chosen.
        self._symbols: dict[tuple[int, int], Symbol] = {}
        # Symbols of split-off unlikely parts → the full name of the function to which they belong.
        self._bodies: dict[Symbol, str] = {}
        self._searched_bytes = 0
        self._name_characters = 0  # of all symbols that were made

    def __len__(self) -> int:
        return len(self._rows)

    def lookup(self, file_addr: int) -> Symbol | None:
        """Return the symbol that covers ``file_addr``; the innermost if they nest."""
        return self.lookup_many([file_addr])[0]

    def lookup_many(self, file_addrs: Sequence[int]) -> list[Symbol | None]:
        """Return the symbol at each address; equal symbols are one object."""
        numbers, symbols = self.find(file_addrs)
        return [symbols[number] if number >= 0 else None for number in numbers.tolist()]

    def find(self, file_addrs: Sequence[int]) -> tuple[Indexes, list[Symbol]]:
        """Return the distinct symbols at some addresses, after a column of indexes into them.

        The index of an address without a symbol is -1.
        """
        if not len(self._rows):
            return np.full(len(file_addrs), -1, np.int64), []
        addrs = np.array([a if 0 <= a < _MAX_ADDR else -1 for a in file_addrs], np.int64)
        found = self._covering(addrs)
        known = found >= 0
        # Several symbols may have the same start. Those that reach the address are the rows from
        # ``first`` to ``found``.
        first = np.searchsorted(self._starts, self._starts[found], side="left")
        for i in np.nonzero(known & (self._ends[first] != self._ends[found]))[0].tolist():
            low, high = int(first[i]), int(found[i])
            reaching = self._ends[low : high + 1] > addrs[i]
            first[i] = low + int(np.argmax(reaching)) if reaching.any() else high
        rows = len(self._rows)
        runs, number = np.unique(np.where(known, first * rows + found, -1), return_inverse=True)
        number = number.astype(np.int64)
        if len(runs) and runs[0] < 0:
            runs, number = runs[1:], number - 1
        keys = [divmod(run, rows) for run in runs.tolist()]
        self._make_symbols([key for key in keys if key not in self._symbols])
        return number, [self._symbols[key] for key in keys]

    def span(self, file_addr: int) -> tuple[int, int] | None:
        """Return start and end of the symbol that covers ``file_addr``.

        A symbol without a size ends at the next symbol, or at the end of its section.
        """
        return self.spans([file_addr])[0]

    def spans(self, file_addrs: Sequence[int]) -> list[tuple[int, int] | None]:
        """Return start and end of the symbol at each address; see :meth:`span`."""
        if not len(self._rows):
            return [None] * len(file_addrs)
        addrs = np.array([a if 0 <= a < _MAX_ADDR else -1 for a in file_addrs], np.int64)
        found, where = np.unique(self._covering(addrs), return_inverse=True)
        spans = [None if row < 0 else self._span(row) for row in found.tolist()]
        return [spans[at] for at in where.tolist()]

    def starts_of(self, symbol: str) -> list[int]:
        """Return the starts of all symbols of a name, with clones and split-off parts."""
        starts: set[int] = set()
        # A name may share its bytes with the end of a longer one, so it may start anywhere.
        wanted = re.compile(re.escape(symbol.encode()) + rb"[\0.@]")
        for number, strings in enumerate(self._strings):
            places = np.fromiter((match.start() for match in wanted.finditer(strings)), np.int64)
            rows = self._rows[np.isin(self._rows["name"], places)]
            for start, table, name in rows[["start", "table", "name"]].tolist():
                if table == number and strip_clone(string_at(strings, name)) == symbol:
                    starts.add(start)
        return sorted(starts)

    def bodies_of(self, symbol: Symbol) -> list[int]:
        """Return the starts of the functions from which a part may have been split off.

        Return none for other symbols, and none once the searches have taken too long.
        """
        body = self._bodies.get(symbol)
        if body is None or self._searched_bytes > _MAX_SEARCHED_BYTES:
            return []
        starts: set[int] = set()
        wanted = body.encode() + b"\0"
        for number, strings in enumerate(self._strings):
            self._searched_bytes += len(strings)
            place = -1
            for _ in range(_MAX_ALIASES):  # a name may also be the end of a longer one
                place = strings.find(wanted, place + 1)
                if place < 0:
                    break
                here = (self._rows["name"] == place) & (self._rows["table"] == number)
                starts.update(self._starts[here].tolist())
        return sorted(starts)

    def _span(self, row: int) -> tuple[int, int]:
        start, size, end = (int(self._rows[name][row]) for name in ("start", "size", "end"))
        if size:
            return start, start + size
        later = int(np.searchsorted(self._starts, start, side="right"))
        return start, min(end, int(self._starts[later])) if later < len(self._starts) else end

    def _make_symbols(self, keys: list[tuple[int, int]]) -> None:
        """Make the symbols of runs of rows with their best names: ``read``, not ``__GI___read``."""
        columns = self._rows[["rank", "table", "name"]]
        lasts = [last for _, last in keys]
        starts = self._starts[lasts].tolist()
        alone = columns[lasts].tolist()
        for (first, last), start, (_, table, place) in zip(keys, starts, alone, strict=True):
            is_used_up = self._name_characters > MAX_MODULE_CHARACTERS
            limit = _SHORT_NAME_BYTES if is_used_up else _MAX_NAME_BYTES
            if first == last:
                full = string_at(self._strings[table], place, limit)
                name = strip_clone(full)
            else:
                names = []
                for rank, table, place in columns[max(first, last + 1 - _MAX_ALIASES) : last + 1]:
                    full = string_at(self._strings[table], int(place), limit)
                    name = strip_clone(full)
                    underscores = len(name) - len(name.lstrip("_"))
                    names.append((int(rank), underscores, len(name), name, full))
                *_, name, full = min(names)
            self._symbols[first, last] = symbol = Symbol(name, start)
            self._name_characters += len(full)
            cold = _COLD.search(full)
            if cold is not None and cold.start():
                self._bodies[symbol] = full[: cold.start()]

    def _covering(self, addrs: Indexes) -> Indexes:
        """Return the row of the symbol at each address, -1 if there is none."""
        starts, ends, reach = self._starts, self._ends, self._reach
        last = np.searchsorted(starts, addrs, side="right").astype(np.int64) - 1
        found = np.full(len(addrs), -1, np.int64)
        left = np.nonzero((last >= 0) & (reach[last] > addrs))[0]
        rows = last[left]
        for _ in range(_STEPS_BACK):
            if not len(left):
                break
            covers = ends[rows] > addrs[left]
            found[left[covers]] = rows[covers]
            left, rows = left[~covers], rows[~covers] - 1
        for i, row in zip(left.tolist(), rows.tolist(), strict=True):
            covering = np.nonzero(ends[: row + 1] > addrs[i])[0]
            found[i] = covering[-1]  # it exists: the highest end is above the address
        sizeless = (found < 0) & (last >= 0)
        sizeless &= (self._rows["size"][last] == 0) & (addrs < self._rows["end"][last])
        return np.where(sizeless, last, found)


def string_at(strings: bytes, offset: int, limit: int = _MAX_NAME_BYTES) -> str:
    """Return a name in a string table, cut to ``limit`` bytes."""
    end = strings.find(b"\0", offset, offset + limit)
    end = end if end >= 0 else offset + limit
    return strings[offset:end].decode("utf-8", "replace")


def symbol_rows(table: bytes) -> NDArray[Any]:
    """Return the rows of an ELF symbol table, dtype ``ELF_SYMBOL``; a rest of one is left out."""
    return np.frombuffer(table, ELF_SYMBOL, len(table) // ELF_SYMBOL.itemsize)


def full_table(elf: ObjectFile) -> tuple[Section, Section] | None:
    """Return ``.symtab`` and the section with its names; None for a stripped file."""
    table = elf.section(".symtab")
    if table is None or table.kind != SHT_SYMTAB or table.link >= len(elf.sections):
        return None
    return table, elf.sections[table.link]


def _take(budget: Budget | None, size: int) -> None:
    if budget is not None and not budget.take(size):
        raise ElfError("the symbol tables of all modules take too much memory")


def _read_table(elf: ObjectFile, section: Section, *, sizeless: bool) -> tuple[NDArray[Any], bytes]:
    """Return the functions of one ELF symbol table, in no order, and its string table."""
    if section.link >= len(elf.sections):
        raise ElfError(f"{section.name} has no string table")
    if section.size > MAX_TABLE_BYTES:
        raise ElfError("too many symbols to read")
    string_bytes = elf.data(elf.sections[section.link])
    strings = np.frombuffer(string_bytes, np.uint8)
    data = elf.data(section)
    all_symbols = symbol_rows(data)
    executable = np.array([s.flags & SHF_EXECINSTR != 0 for s in elf.sections], bool)
    ends = np.array([min(s.addr + s.size, _MAX_ADDR) for s in elf.sections], np.int64)
    kind = all_symbols["info"] & 15
    index = all_symbols["section"]
    is_place = kind == _STT_NOTYPE
    wanted = is_place | (kind == _STT_FUNC) | (kind == _STT_GNU_IFUNC)
    wanted &= (index != _SHN_UNDEF) & (index < min(_SHN_LORESERVE, len(executable)))
    wanted &= (all_symbols["name"] < len(strings)) & (all_symbols["value"] < _MAX_ADDR)
    wanted &= all_symbols["size"] < _MAX_ADDR
    if not sizeless:
        wanted &= all_symbols["size"] > 0
    symbols = all_symbols[wanted]
    initial = strings[symbols["name"]]
    # "$x" and ".L12" are labels in the code, not functions.
    is_mark = (symbols["info"] & 15 == _STT_NOTYPE) & (
        (initial == ord("$")) | (initial == ord("."))
    )
    symbols = symbols[executable[symbols["section"]] & (initial != 0) & ~is_mark]
    rows = np.zeros(len(symbols), ROWS)
    rows["start"], rows["size"] = symbols["value"], symbols["size"]
    rows["end"] = ends[symbols["section"]]
    rows["rank"] = np.where(symbols["info"] & 15 == _STT_NOTYPE, 2, 0)
    rows["rank"] += symbols["info"] >> 4 == 0
    rows["name"] = symbols["name"]
    return rows, string_bytes
