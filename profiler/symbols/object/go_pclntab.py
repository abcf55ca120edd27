"""Read names, lines and inlined functions of Go programs from the runtime's own table, the pclntab.

Stripped Go programs keep this table. For each function it has a record, and runs of values for
ranges of its code: the number of the source file, the line, and the index into the function's tree
of inlined calls. The trees are elsewhere. Up to Go 1.17 the records have their addresses, later
versions offsets from a base that :mod:`flametap.symbols.object.go_find` finds.

We read the formats of Go 1.2, 1.16, 1.18 and 1.20 (still current); inlined functions since 1.12.

Source: go/src/debug/gosym/pclntab.go; go/src/runtime/symtab.go, symtabinl.go and runtime2.go
(``_func``); go/src/runtime/funcdata.h, of each of these versions.
"""

from __future__ import annotations

import struct
from array import array
from bisect import bisect_right
from typing import NamedTuple

from .loaded_image import LoadedImage

MAGIC_1_2, MAGIC_1_16, MAGIC_1_18, MAGIC_1_20 = 0xFFFFFFFB, 0xFFFFFFFA, 0xFFFFFFF0, 0xFFFFFFF1
_MAX_FUNCTIONS = 4 << 20
_MAX_RUN_BYTES = 1 << 20
_MAX_ADDR = 1 << 62  # low enough that a start can be added
_MAX_CHAIN = 128
_MAX_KEPT_RUNS = 1 << 13
_NONE = 0xFFFFFFFF
_FEW_TREES, _MANY_TREES = 8, 48  # of inlined calls; the runtime alone has hundreds
_CALL_1_12 = struct.Struct("<hBxiiii")  # parent, id, file, line, name, place of the call
_CALL_1_20 = struct.Struct("<Bxxxiii")  # id, name, place of the call, first line
# Positions in a record of the index into the tree, and of the tree: since 1.13, 1.12; since 1.16.
_PLACES_1_2 = ((2, 4), (1, 2))
_PLACES_1_16 = ((2, 3),)


class GoFrame(NamedTuple):
    """A function of an inline chain, and the file and line in it."""

    name: str
    file: str  # "" if unknown
    line: int  # 0 if unknown


class GoFunction(NamedTuple):
    """A function and its inline chain at an address, outermost first; at least one frame."""

    start: int  # file_addr
    file: str  # at its first instruction
    chain: tuple[GoFrame, ...]


class _Record(NamedTuple):
    """The table's record of one function. Addresses are file_addrs."""

    at: int
    start: int
    size: int
    name: int  # offset into the names
    files: int  # offset of the runs of file numbers
    lines: int
    unit: int  # added to a file number
    value_count: int  # offsets of other runs that follow the record
    data_count: int  # and pointers after them


class _Runs(NamedTuple):
    """Values for ranges of a function's code: ``values[i]`` up to offset ``ends[i]``."""

    ends: array[int]
    values: array[int]

    def at(self, offset: int) -> int:
        """Return the value at an offset from the function's start, -1 if there is none."""
        index = bisect_right(self.ends, offset)
        return self.values[index] if index < len(self.values) else -1


class GoTable:
    """The functions of one Go program. Used by one thread at a time.

    Args:
        image: the program.
        addr: file_addr of the table.
        text_addr: file_addr to which function addresses are relative; unused before Go 1.18.

    Attributes:
        first: file_addr of the first function.
        end: end of the last function.

    Raises:
        struct.error, IndexError: there is no table here, or it is damaged.
    """

    def __init__(self, image: LoadedImage, addr: int, text_addr: int) -> None:
        self._image = image
        self._addr = addr
        self.magic, zeros, self._quantum, pointer_bytes = struct.unpack(
            "<IHBB", image.read(addr, 8)
        )
        if zeros or self._quantum not in (1, 4) or pointer_bytes != 8:
            raise IndexError("no table of a 64-bit program")
        self._has_pointers = self.magic in (MAGIC_1_2, MAGIC_1_16)
        has_text = self.magic in (MAGIC_1_18, MAGIC_1_20)
        if not has_text and not self._has_pointers:
            raise IndexError("no magic number")
        (count,) = struct.unpack("<Q", image.read(addr + 8, 8))
        if not 0 < count <= _MAX_FUNCTIONS:
            raise IndexError("no functions")
        if self.magic == MAGIC_1_2:
            self._names = self._values = self._records = addr
            functions = addr + 16
            (files,) = struct.unpack("<I", image.read(functions + count * 16 + 8, 4))
            self._units, self._files = addr + files, addr
        else:
            parts = struct.unpack("<5Q", image.read(addr + (32 if has_text else 24), 40))
            self._names, self._units, self._files, self._values, self._records = (
                addr + part for part in parts
            )
            functions = self._records
        self._read_functions(functions, count, text_addr)
        self._record_bytes = {MAGIC_1_16: 44, MAGIC_1_20: 44}.get(self.magic, 40)
        self._kept_runs: dict[tuple[int, int], _Runs] = {}
        # How to find inlined calls: the number of the runs with the index, the number of the
        # pointer to the tree, and the base of that pointer. None: they cannot be found.
        self._tree_place: tuple[int, int] | None = None
        self._tree_base = 0

    def _read_functions(self, addr: int, count: int, text_addr: int) -> None:
        if self._has_pointers:
            words = self._image.pointers(addr, count * 2 + 1)
            starts, offsets = words[0::2], words[1::2]
        else:
            if text_addr >= _MAX_ADDR:
                raise IndexError("code at no address")
            pairs = array("I", self._image.read(addr, count * 8 + 4))
            starts = array("Q", (text_addr + start for start in pairs[0::2]))
            offsets = array("Q", pairs[1::2])
        self._starts, self._record_offsets = starts, offsets
        self.first, self.end = starts[0], starts[-1]
        if not self.first < self.end:
            raise IndexError("functions are not in order")

    def __len__(self) -> int:
        return len(self._record_offsets)

    @property
    def has_inlines(self) -> bool:
        """True if inlined functions can be found."""
        return self._tree_place is not None

    def find_trees(self, base: int = 0) -> bool:
        """Try a base for the trees of inlined calls; keep it and return True if it is right.

        A wrong base would give wrong names. So the trees must look valid for every function that is
        tried: tens of them, spread over the program.
        """
        for place in _PLACES_1_2 if self.magic == MAGIC_1_2 else _PLACES_1_16:
            if self._trees_are_right(place, base):
                self._tree_place, self._tree_base = place, base
                return True
        return False

    def name(self, index: int) -> str:
        """Return the name of a function by its number."""
        return self._image.string(self._names + self._record(index).name)

    def lookup(self, file_addr: int) -> GoFunction | None:
        """Return the functions at ``file_addr``.

        Return ``None`` outside of Go code, in the padding between functions, and if the table is
        damaged.
        """
        if not self.first <= file_addr < self.end:
            return None
        try:
            record = self._record(bisect_right(self._starts, file_addr) - 1)
            files = self._runs(record, record.files)
            if files.ends and file_addr - record.start >= files.ends[-1]:
                return None  # padding
            chain = self._chain(record, file_addr - record.start)
            return GoFunction(record.start, self._file_at(record, 0), chain)
        except (struct.error, IndexError):
            return None

    def span(self, file_addr: int) -> tuple[int, int] | None:
        """Return start and end of the function that covers ``file_addr``, with its padding."""
        if not self.first <= file_addr < self.end:
            return None
        index = bisect_right(self._starts, file_addr) - 1
        return self._starts[index], self._starts[index + 1]

    def _record(self, index: int) -> _Record:
        at = self._records + self._record_offsets[index]
        data = self._image.read(at, self._record_bytes)
        name, _, _, _, files, lines, value_count, unit = struct.unpack_from(
            "<8I", data, 8 if self._has_pointers else 4
        )
        start, end = self._starts[index], self._starts[index + 1]
        if start >= end:
            raise IndexError("functions are not in order")
        unit = 0 if self.magic == MAGIC_1_2 else unit
        return _Record(at, start, end - start, name, files, lines, unit, value_count, data[-1])

    def _chain(self, record: _Record, offset: int) -> tuple[GoFrame, ...]:
        """Return the functions at an offset into a function, outermost first."""
        file, line = self._file_at(record, offset), self._line_at(record, offset)
        chain: list[GoFrame] = []
        place = self._tree_place
        tree = self._tree(record, place, self._tree_base) if place else 0
        indices = self._runs_of(record, place[0]) if place and tree else None
        index = indices.at(offset) if indices else -1
        while indices and index >= 0 and len(chain) < _MAX_CHAIN:
            if self.magic == MAGIC_1_20:
                _, name, call, _ = _CALL_1_20.unpack(self._image.read(tree + index * 16, 16))
                chain.append(GoFrame(self._name(name), file, line))
                file, line = self._file_at(record, call), self._line_at(record, call)
                parent = indices.at(call)
            else:
                parent, _, number, call_line, name, _ = _CALL_1_12.unpack(
                    self._image.read(tree + index * 20, 20)
                )
                chain.append(GoFrame(self._name(name), file, line))
                file, line = self._file(record.unit, number), max(call_line, 0)
            if parent >= index:
                raise IndexError("a call that is inlined into itself")
            index = parent
        chain.append(GoFrame(self._image.string(self._names + record.name), file, line))
        return tuple(reversed(chain))

    def _tree(self, record: _Record, place: tuple[int, int], base: int) -> int:
        """Return the address of a function's tree of inlined calls, 0 if it has none."""
        index, number = place
        if index >= record.value_count or number >= record.data_count:
            return 0
        at = record.at + self._record_bytes + record.value_count * 4
        if self._has_pointers:
            return self._image.pointer((at + 7 & ~7) + number * 8)
        offset = int.from_bytes(self._image.read(at + number * 4, 4), "little")
        return 0 if offset == _NONE else base + offset

    def _trees_are_right(self, place: tuple[int, int], base: int) -> bool:
        tried = 0
        for index in range(0, len(self), max(1, len(self) // 4096)):
            try:
                is_right = self._tree_is_right(self._record(index), place, base)
            except (struct.error, IndexError):
                return False
            if is_right is False:
                return False
            tried += is_right is True
            if tried == _MANY_TREES:
                break
        return tried >= _FEW_TREES

    def _tree_is_right(self, record: _Record, place: tuple[int, int], base: int) -> bool | None:
        """Return whether a function's tree looks valid; None if it has none."""
        tree = self._tree(record, place, base)
        if not tree:
            return None
        runs = self._runs_of(record, place[0])
        if runs is None:
            return False
        for index in range(max(runs.values, default=-1) + 1):
            if self.magic == MAGIC_1_20:
                call_id, name, call, _ = _CALL_1_20.unpack(self._image.read(tree + index * 16, 16))
                parent = runs.at(call)
            else:
                parent, call_id, _, _, name, call = _CALL_1_12.unpack(
                    self._image.read(tree + index * 20, 20)
                )
            if not -1 <= parent < index or call_id > 64 or not 0 <= call <= record.size:
                return False
            self._name(name)
        return max(runs.values, default=-1) >= 0

    def _name(self, offset: int) -> str:
        """Return the name of an inlined function.

        Raises:
            IndexError: no name begins at this offset.
        """
        at = self._names + offset
        if offset < 0 or (self._image.read(at - 1, 1) != b"\0" and at != self._names):
            raise IndexError("not the start of a name")
        name = self._image.string(at)
        if not name or not name.isprintable():
            raise IndexError("not a name")
        return name

    def _file_at(self, record: _Record, offset: int) -> str:
        return self._file(record.unit, self._runs(record, record.files).at(offset))

    def _line_at(self, record: _Record, offset: int) -> int:
        return max(self._runs(record, record.lines).at(offset), 0)

    def _file(self, unit: int, number: int) -> str:
        if number < 0 or unit == _NONE:
            return ""
        place = int.from_bytes(self._image.read(self._units + (unit + number) * 4, 4), "little")
        return "" if place == _NONE else self._image.string(self._files + place)

    def _runs_of(self, record: _Record, number: int) -> _Runs | None:
        """Return runs by their number: other runs than those of files and lines."""
        if number >= record.value_count:
            return None
        at = record.at + self._record_bytes + number * 4
        place = int.from_bytes(self._image.read(at, 4), "little")
        return self._runs(record, place) if place else None

    def _runs(self, record: _Record, place: int) -> _Runs:
        # Several functions may share runs.
        runs = self._kept_runs.get((place, record.size))
        if runs is None:
            if len(self._kept_runs) >= _MAX_KEPT_RUNS:
                self._kept_runs.clear()
            runs = self._decode(place, record.size)
            self._kept_runs[place, record.size] = runs
        return runs

    def _decode(self, place: int, size: int) -> _Runs:
        """Decode runs from pairs of numbers: the change of the value, and the length of code."""
        ends, values = array("q"), array("q")
        if place == 0:
            return _Runs(ends, values)
        data = self._image.read_some(self._values + place, 256)
        position, end, value = 0, 0, -1
        while end < size:
            if position + 20 > len(data) < _MAX_RUN_BYTES:
                data = self._image.read_some(self._values + place, len(data) * 4)
            change, position = _varint(data, position)
            if change == 0 and ends:
                break
            length, position = _varint(data, position)
            value += -((change + 1) >> 1) if change & 1 else change >> 1
            end += length * self._quantum
            ends.append(end)
            values.append(value)
        return _Runs(ends, values)


def _varint(data: bytes, position: int) -> tuple[int, int]:
    """Return a base-128 number of at most five bytes, and the position after it."""
    byte = data[position]
    position += 1
    if byte < 0x80:
        return byte, position
    number, shift = byte & 0x7F, 7
    while byte >= 0x80:
        byte = data[position]
        position += 1
        number |= (byte & 0x7F) << shift
        shift += 7
        if shift > 35:
            raise IndexError("a number that does not end")
    return number, position
