"""Read the names of code that a library has registered for debuggers: GDB's JIT interface.

Nobody has to switch it on: LLVM registers what it compiles, in numba, JAX, TensorFlow, Mesa. The
list and what it leads to are in the memory of the process, and only read::

    descriptor  version u32, action u32, relevant entry, first entry
    entry       next, previous, address of an object file, its bytes (u64 each)

An object file is an ELF file, whose sections have the addresses at which they are loaded. The
process goes on meanwhile, so a list may be torn: what cannot be read is left out and looked at
again when the list has changed. All of it may be hostile, so everything has a limit.

An entry gets the time of the look before the one that found it. So an address that was seen earlier
does not get the name of later code.

Source: GDB manual, "JIT Interface"; System V ABI, "Symbol Table".
"""

from __future__ import annotations

import contextlib
import struct
import time
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from ...linux.elf_headers import SHF_EXECINSTR, SHT_SYMTAB
from ...linux.process_memory import MemoryReadError, ProcessMemory
from ...linux.procfs import PROC, read_monotonic_offset_ns
from ..object.elf import ElfError, from_bytes
from ..object.symtab import ELF_SYMBOL, string_at
from .code_ranges import CodeRanges, Found, Int64s, Ranges
from .descriptors import DESCRIPTOR_BYTES, Descriptors
from .growing_file import Growth

FILES_INTERVAL_S = 2.0  # between two looks at what is loaded
MAX_ENTRIES = 1 << 16
MAX_OBJECT_BYTES = 64 << 20
MAX_ALL_BYTES = 1 << 30  # read of one process
MAX_NAME_CHARACTERS = 64 << 20
OBJECTS_AT_ONCE = 64
_MAX_CODE_BYTES = 1 << 30
_MAX_ADDRESS = (1 << 63) - _MAX_CODE_BYTES
_DESCRIPTOR = struct.Struct("<IIQQ")
_ENTRY = struct.Struct("<QQQQ")
_VERSION = 1
_ET_REL = 1  # addresses of symbols count from their section
_STT_FUNC = 2


class _Entry(NamedTuple):
    place: int  # runtime_addr of the entry, of the object file
    object_addr: int
    object_bytes: int


class _Function(NamedTuple):
    start: int  # runtime_addr
    end: int
    name: str  # as the compiler wrote it


class RegisteredCode:
    """The functions in the lists of one process, as far as they are read.

    Attributes:
        refusal: the reason why the memory is not read; ``""`` if it is.
        problem: why reading has ended before the end of the lists, ``""`` if it has not.
        damaged: number of object files that cannot be read.
    """

    kind = "registered for debuggers"
    has_lines = False

    def __init__(self, pid: int, proc: str = PROC) -> None:
        self._pid = pid
        self._proc = proc
        self._descriptors = Descriptors(pid, proc)
        self._memory: ProcessMemory | None = None
        self._files_looked_s = -FILES_INTERVAL_S
        self._heads: dict[int, bytes] = {}  # by place of a descriptor
        self._known: dict[int, set[_Entry]] = {}
        self._new: list[tuple[_Entry, int]] = []  # with made_ns, the oldest last
        self._looked_ns = 0
        self._ranges = CodeRanges()
        self._names: list[str] = []
        self._name_characters = self._read_bytes = 0
        self.refusal = self.problem = ""
        self.damaged = 0

    def __len__(self) -> int:
        return len(self._ranges)

    @property
    def dropped(self) -> int:
        """Number of functions that were removed because there are too many."""
        return self._ranges.dropped

    def look(self) -> Growth:
        """Check whether anything was registered since the last look."""
        now_ns = self._now_ns()
        if self._memory is None and not self._open():
            return Growth.NONE
        assert self._memory is not None
        if time.monotonic() - self._files_looked_s >= FILES_INTERVAL_S:
            with contextlib.suppress(OSError):
                self._descriptors.look(self._memory)
            self._files_looked_s = time.monotonic()
        for place in self._descriptors.places:
            self._look_at_list(self._memory, place)
        self._looked_ns = now_ns
        return Growth.MORE if self._new else Growth.NONE

    def read_more(self) -> bool:
        """Read some object files; return False if none is left."""
        found: list[tuple[_Function, int]] = []
        for _ in range(min(OBJECTS_AT_ONCE, len(self._new))):
            entry, made_ns = self._new.pop()
            found += ((function, made_ns) for function in self._functions_of(entry))
        if found:
            keys = np.arange(len(self._names), len(self._names) + len(found))
            self._names += (function.name for function, _ in found)
            self._ranges.add(
                Ranges(
                    np.array([function.start for function, _ in found], np.uint64),
                    np.array([function.end for function, _ in found], np.uint64),
                    keys.astype(np.int64),
                    np.array([made_ns for _, made_ns in found], np.int64),
                )
            )
        return bool(self._new)

    def find(self, addresses: np.typing.NDArray[np.uint64], seen_ns: Int64s) -> Found:
        """Find the key of the code at each address at the time when it was seen."""
        return self._ranges.find(addresses, seen_ns)

    def name(self, key: int, start: int) -> str:
        """Return the name for a key."""
        return self._names[key]

    def notes(self) -> Iterator[str]:
        """Tell what is missing."""
        if self.problem:
            yield f"what is registered for debuggers is not read further: {self.problem}"
        if self.damaged:
            yield f"{self.damaged:,} objects that are registered for debuggers are damaged"
        if self.dropped:
            yield f"the oldest {self.dropped:,} functions registered for debuggers are left out"

    def close(self) -> None:
        """Close the memory. Idempotent."""
        if self._memory is not None:
            self._memory.close()

    def _open(self) -> bool:
        try:
            self._memory = ProcessMemory(f"{self._proc}/{self._pid}")
        except OSError:  # it has gone, or may not be read: then nothing of it is
            return False
        return True

    def _now_ns(self) -> int:
        """Return the time by the target's CLOCK_MONOTONIC."""
        with contextlib.suppress(OSError):
            ours_ns = read_monotonic_offset_ns("self", self._proc)
            return time.monotonic_ns() + read_monotonic_offset_ns(self._pid, self._proc) - ours_ns
        return time.monotonic_ns()

    def _look_at_list(self, memory: ProcessMemory, place: int) -> None:
        """Note the entries that are new in one list, if it has changed."""
        try:
            head = memory.read(place, DESCRIPTOR_BYTES)
            if head == self._heads.get(place):
                return
            entries = list(_entries(memory, head))
        except MemoryReadError:
            return  # it is being changed, or the library was unloaded
        known = self._known.get(place, set())
        new = [(entry, self._looked_ns) for entry in entries if entry not in known]
        # LLVM puts new ones first. The oldest is read first, so the newest has the greatest key.
        self._new = new + self._new
        self._known[place] = set(entries)
        self._heads[place] = head

    def _functions_of(self, entry: _Entry) -> list[_Function]:
        assert self._memory is not None
        if self.problem:
            return []
        if self._read_bytes + entry.object_bytes > MAX_ALL_BYTES:
            self.problem = f"there is more than {MAX_ALL_BYTES >> 20} MiB of it"
            return []
        self._read_bytes += entry.object_bytes
        try:
            found = functions_of(self._memory.read(entry.object_addr, entry.object_bytes))
        except (MemoryReadError, ElfError):
            self.damaged += 1
            return []
        self._name_characters += sum(len(function.name) for function in found)
        if self._name_characters > MAX_NAME_CHARACTERS:
            self.problem = f"its names have more than {MAX_NAME_CHARACTERS >> 20} MB"
            return []
        return found


def _entries(memory: ProcessMemory, head: bytes) -> Iterator[_Entry]:
    """Return the entries of a list, in its order.

    Raises:
        MemoryReadError: one cannot be read.
    """
    version, _, _, place = _DESCRIPTOR.unpack(head)
    if version != _VERSION:
        return
    for _ in range(MAX_ENTRIES):
        if not place:
            return
        following, _, object_addr, object_bytes = _ENTRY.unpack(memory.read(place, _ENTRY.size))
        if 0 < object_bytes <= MAX_OBJECT_BYTES:
            yield _Entry(place, object_addr, object_bytes)
        place = following


def functions_of(data: bytes) -> list[_Function]:
    """Return the functions of an object file, with the addresses at which they are loaded.

    Raises:
        ElfError: it is damaged.
    """
    elf = from_bytes(data)
    table = elf.section(".symtab")
    if table is None or table.kind != SHT_SYMTAB or table.link >= len(elf.sections):
        return []
    strings = elf.data(elf.sections[table.link])
    content = elf.data(table)
    rows = np.frombuffer(content, ELF_SYMBOL, len(content) // ELF_SYMBOL.itemsize)
    is_code = np.array([bool(s.flags & SHF_EXECINSTR) for s in elf.sections], bool)
    bases = np.array([s.addr if elf.file_type == _ET_REL else 0 for s in elf.sections], np.uint64)
    rows = rows[(rows["section"] < len(is_code)) & (rows["info"] & 15 == _STT_FUNC)]
    rows = rows[is_code[rows["section"]] & (rows["name"] < len(strings))]
    base = bases[rows["section"]]
    fits = (rows["size"] > 0) & (rows["size"] < _MAX_CODE_BYTES)
    fits &= (rows["value"] < _MAX_ADDRESS) & (base < _MAX_ADDRESS)
    starts = (base + rows["value"])[fits].tolist()
    found = []
    for start, size, name in zip(
        starts, rows["size"][fits].tolist(), rows["name"][fits].tolist(), strict=True
    ):
        if 0 < start < _MAX_ADDRESS and (text := string_at(strings, name)):
            found.append(_Function(start, start + size, text))
    return found
