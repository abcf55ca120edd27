"""Read lists of registered code, and the object files that they lead to.

::

    descriptor  version u32, action u32, relevant entry, first entry
    entry       next, previous, address of an object file, its bytes (u64 each)

An object file is an ELF file, whose sections have the addresses at which they are loaded. The
process goes on meanwhile, so a list may be torn, and an object may be another one by the time it is
read. All of it may be hostile, so everything has a limit.

Source: GDB manual, "JIT Interface"; System V ABI, "Symbol Table".
"""

from __future__ import annotations

import struct
import zlib
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ...linux.elf_headers import SHF_EXECINSTR
from ...linux.process_memory import MemoryReadError, ProcessGoneError, ProcessMemory
from ..object.elf import from_bytes
from ..object.symtab import full_table, string_at, symbol_rows

MAX_ENTRIES = 1 << 14
MAX_OBJECT_BYTES = 16 << 20
MAX_NAME_BYTES = 2048  # of one function; numba's have some hundred
# Of a larger object only the ends tell it apart: names are at one of them.
_COMPARED_BYTES = 32 << 10
_MAX_CODE_BYTES = 1 << 30
_MAX_ADDRESS = (1 << 63) - _MAX_CODE_BYTES
_DESCRIPTOR = struct.Struct("<IIQQ")
_ENTRY = struct.Struct("<QQQQ")
_VERSION = 1
_OBJECT_BYTES = 64  # of an empty text of Python's
_ET_REL = 1  # addresses of symbols count from their section
_STT_FUNC = 2


class Entry(NamedTuple):
    """An entry of a list."""

    place: int  # runtime_addr of the entry
    object_addr: int  # runtime_addr of the object file
    object_bytes: int


class Functions(NamedTuple):
    """The functions of an object file, in columns."""

    starts: npt.NDArray[np.uint64]  # runtime_addr
    ends: npt.NDArray[np.uint64]
    offsets: npt.NDArray[np.int64]  # of their names in ``strings``
    strings: bytes

    @classmethod
    def none(cls) -> Functions:
        """Return no functions."""
        nothing = np.empty(0, np.uint64)
        return cls(nothing, nothing, np.empty(0, np.int64), b"")

    def names(self, limit_bytes: int) -> list[str] | None:
        """Return the names as the compiler wrote them; None if they take more memory."""
        names = []
        for offset in self.offsets.tolist():
            name = string_at(self.strings, offset, MAX_NAME_BYTES)
            limit_bytes -= len(name) + _OBJECT_BYTES
            if limit_bytes < 0:
                return None
            names.append(name)
        return names

    def without_names(self) -> Functions:
        """Return the places alone."""
        return self._replace(strings=b"")


def read_list(memory: ProcessMemory, place: int) -> list[Entry]:
    """Return the entries of the list with its descriptor at ``place``, in its order.

    None are left once the library was unloaded.

    Raises:
        MemoryReadError: an entry cannot be read, or the process has gone.
    """
    try:
        version, _, _, at = _DESCRIPTOR.unpack(memory.read(place, _DESCRIPTOR.size))
    except ProcessGoneError:
        raise
    except MemoryReadError:
        return []
    entries: dict[int, Entry] = {}
    while version == _VERSION and at and at not in entries and len(entries) < MAX_ENTRIES:
        following, _, object_addr, object_bytes = _ENTRY.unpack(memory.read(at, _ENTRY.size))
        entries[at] = Entry(at, object_addr, object_bytes)
        at = following
    return [each for each in entries.values() if 0 < each.object_bytes <= MAX_OBJECT_BYTES]


def is_listed(memory: ProcessMemory, entry: Entry) -> bool:
    """Whether the entry is still what it was.

    Raises:
        MemoryReadError: it cannot be read.
    """
    _, _, object_addr, object_bytes = _ENTRY.unpack(memory.read(entry.place, _ENTRY.size))
    return (object_addr, object_bytes) == (entry.object_addr, entry.object_bytes)


def fingerprint_of(data: bytes) -> int:
    """Return what tells an object from another one that later has its place and size."""
    if len(data) <= 2 * _COMPARED_BYTES:
        return zlib.crc32(data)
    return _of_ends(data[:_COMPARED_BYTES], data[-_COMPARED_BYTES:])


def fingerprint_in(memory: ProcessMemory, entry: Entry) -> int:
    """Return the fingerprint of the object that an entry leads to now; -1 if it cannot be read."""
    start, size = entry.object_addr, entry.object_bytes
    try:
        if size <= 2 * _COMPARED_BYTES:
            return fingerprint_of(memory.read(start, size))
        last = memory.read(start + size - _COMPARED_BYTES, _COMPARED_BYTES)
        return _of_ends(memory.read(start, _COMPARED_BYTES), last)
    except MemoryReadError:
        return -1


def _of_ends(first: bytes, last: bytes) -> int:
    return zlib.crc32(last, zlib.crc32(first))


def functions_of(data: bytes) -> Functions:
    """Return the functions of an object file, with the addresses at which they are loaded.

    Raises:
        ElfError: it is damaged.
    """
    elf = from_bytes(data)
    found = full_table(elf)
    if found is None:
        return Functions.none()
    strings = elf.data(found[1])
    rows = symbol_rows(elf.data(found[0]))
    is_code = np.array([bool(s.flags & SHF_EXECINSTR) for s in elf.sections], bool)
    bases = np.array([s.addr if elf.file_type == _ET_REL else 0 for s in elf.sections], np.uint64)
    rows = rows[(rows["section"] < len(is_code)) & (rows["info"] & 15 == _STT_FUNC)]
    rows = rows[is_code[rows["section"]] & (rows["name"] < len(strings))]
    base = bases[rows["section"]]
    fits = (rows["size"] > 0) & (rows["size"] < _MAX_CODE_BYTES)
    fits &= (rows["value"] < _MAX_ADDRESS) & (base < _MAX_ADDRESS)
    starts, sizes = (base + rows["value"])[fits], rows["size"][fits]
    is_sensible = (starts > 0) & (starts < _MAX_ADDRESS)
    starts, offsets = starts[is_sensible], rows["name"][fits][is_sensible].astype(np.int64)
    return Functions(starts, starts + sizes[is_sensible], offsets, strings)
