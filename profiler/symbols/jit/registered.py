"""Read the names of code that a library has registered for debuggers: GDB's JIT interface.

Nobody has to switch it on: LLVM registers what it compiles, in numba, JAX, TensorFlow. The lists
and what they lead to are in the memory of the process, and only read (``object_lists``).

An address gets a name only if the code was registered when it was seen, as far as the looks tell:
code begins at the last look that did not find it, and ends at the last one that did. Then another
compiler may have its place.

Source: GDB manual, "JIT Interface".
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from ...linux import elf_headers
from ...linux.process_memory import MemoryReadError, ProcessMemory
from ...linux.procfs import PROC, read_monotonic_offset_ns
from ..object.elf import ElfError
from .code_ranges import Ranges
from .code_reader import CodeReader
from .descriptors import Descriptors
from .growing_file import Growth
from .object_lists import (
    Entry,
    Functions,
    fingerprint_in,
    fingerprint_of,
    functions_of,
    is_listed,
    read_list,
)

# Reading the lists takes at most this part of the time, in a thread of its own.
COST_FACTOR = 20
OBJECTS_AT_ONCE = 64
# Of one process. TensorFlow's models have some hundred functions of some KiB each.
MAX_ALL_BYTES = 256 << 20
_LEAST_BYTES = 4096  # that an object counts for
MAX_FUNCTIONS = 1 << 18
MAX_NAME_BYTES = 32 << 20
_GONE = ""  # instead of a name: the code is not registered any more


class _New(NamedTuple):
    place: int  # of the list
    entry: Entry
    made_ns: int


class _List:
    """What is known of one list."""

    def __init__(self, found_ns: int) -> None:
        self.looked_ns = found_ns  # what is new was registered after this
        self.known: dict[Entry, tuple[int, Functions]] = {}  # fingerprint and functions


class RegisteredCode(CodeReader):
    """The functions in the lists of one process, as far as they are read.

    Attributes:
        problem: why reading has ended before the end of the lists, ``""`` if it has not.
        damaged: number of object files that cannot be read.
        foreign: number of objects that are no ELF files: Erlang registers tables of its own.
    """

    kind = "registered for debuggers"

    def __init__(self, pid: int, proc: str = PROC) -> None:
        super().__init__()
        self._pid = pid
        self._proc = proc
        self._clock_offset_ns = 0  # how far the target's CLOCK_MONOTONIC is ahead of ours
        self._descriptors = Descriptors(pid, proc)
        self._memory: ProcessMemory | None = None
        self._has_new_files = True
        self._files_looked_ns = 0
        self._not_before_s = 0.0
        self._lists: dict[int, _List] = {}  # by place of the descriptor
        self._new: list[_New] = []  # the oldest last
        self._names: list[str] = []
        self._name_bytes = self._read_bytes = 0
        self.problem = ""
        self.damaged = self.foreign = 0

    def see_module(self) -> None:
        """Look for lists once more: the process has loaded a file. Any thread."""
        self._has_new_files = True

    def hurry(self) -> None:
        """Have the next look come at once. Any thread."""
        self._not_before_s = 0.0

    def look(self) -> Growth:
        """Check what was registered and what is gone since the last look."""
        if self._new or time.monotonic() < self._not_before_s:
            return Growth.MORE if self._new else Growth.NONE
        if self._memory is None and not self._open():
            return Growth.NONE
        assert self._memory is not None
        if self._has_new_files:
            self._has_new_files = False
            self._find_lists(self._memory)
        began_s = time.monotonic()
        has_lost = False
        for place, known in self._lists.items():
            has_lost |= self._look_at(self._memory, place, known)
        ended_s = time.monotonic()
        self._not_before_s = ended_s + COST_FACTOR * (ended_s - began_s)
        return Growth.MORE if self._new or has_lost else Growth.NONE

    def read_more(self) -> bool:
        """Read some object files; return False if none is left."""
        for _ in range(min(OBJECTS_AT_ONCE, len(self._new))):
            self._read(self._new.pop())
        return bool(self._new)

    def name(self, key: int, start: int) -> str:
        """Return the name for a key; ``""`` for code that is not registered any more."""
        return self._names[key]

    def notes(self) -> Iterator[str]:
        """Tell what is missing."""
        if self.problem:
            yield f"what is registered for debuggers is not read further: {self.problem}"
        if self.damaged:
            yield f"{self.damaged:,} objects that are registered for debuggers are damaged"
        if self.foreign:
            yield f"{self.foreign:,} objects that are registered for debuggers are no ELF files"

    def close(self) -> None:
        """Close the memory. Idempotent."""
        if self._memory is not None:
            self._memory.close()

    def _open(self) -> bool:
        try:
            self._memory = ProcessMemory(f"{self._proc}/{self._pid}")
        except OSError:  # it has gone, or may not be read
            return False
        with contextlib.suppress(OSError, ValueError):
            target_ns = read_monotonic_offset_ns(self._pid, self._proc)
            self._clock_offset_ns = target_ns - read_monotonic_offset_ns(os.getpid(), self._proc)
        return True

    def _now_ns(self) -> int:
        """Return the time by the target's CLOCK_MONOTONIC."""
        return time.monotonic_ns() + self._clock_offset_ns

    def _find_lists(self, memory: ProcessMemory) -> None:
        now_ns = self._now_ns()
        with contextlib.suppress(OSError):
            self._descriptors.look(memory)
        self._lists = {
            place: self._lists.get(place) or _List(self._files_looked_ns)
            for place in self._descriptors.places
        }
        self._files_looked_ns = now_ns

    def _look_at(self, memory: ProcessMemory, place: int, known: _List) -> bool:
        """Note what is new in one list; return True if something is gone."""
        now_ns = self._now_ns()
        try:
            entries = read_list(memory, place)
            same = {
                entry
                for entry in entries
                if entry in known.known and known.known[entry][0] == fingerprint_in(memory, entry)
            }
        except MemoryReadError:
            return False  # it is being changed: everything is looked at again
        gone = [entry for entry in known.known if entry not in same]
        for entry in gone:
            functions = known.known.pop(entry)[1]
            self._add(functions, [_GONE] * len(functions.starts), known.looked_ns)
        # LLVM puts new ones first: the oldest is read first, so the newest has the greatest key.
        if not self.problem:
            new = [_New(place, entry, known.looked_ns) for entry in entries if entry not in same]
            self._new = new + self._new
        known.looked_ns = now_ns
        return bool(gone)

    def _read(self, new: _New) -> None:
        """Read one object, if it is still there, and add its functions."""
        assert self._memory is not None
        if self.problem or new.place not in self._lists:
            return
        size = max(new.entry.object_bytes, _LEAST_BYTES)
        if self._read_bytes + size > MAX_ALL_BYTES:
            self.problem = f"there is more than {MAX_ALL_BYTES >> 20} MiB of it"
            return
        try:
            data = self._memory.read(new.entry.object_addr, new.entry.object_bytes)
            if not is_listed(self._memory, new.entry):
                return
        except MemoryReadError:
            return  # it has gone meanwhile
        self._read_bytes += size
        try:
            functions = functions_of(data)
        except ElfError:
            is_elf = data.startswith(elf_headers.MAGIC)
            self.damaged += is_elf
            self.foreign += not is_elf
            functions = Functions.none()
        has_room = len(self._names) + len(functions.starts) <= MAX_FUNCTIONS
        names = functions.names(MAX_NAME_BYTES - self._name_bytes) if has_room else None
        if names is None:
            self.problem = "there are too many functions"
            return
        self._name_bytes += sum(map(len, names))
        self._lists[new.place].known[new.entry] = (fingerprint_of(data), functions.without_names())
        self._add(functions, names, new.made_ns)

    def _add(self, functions: Functions, names: list[str], made_ns: int) -> None:
        keys = np.arange(len(self._names), len(self._names) + len(names), dtype=np.int64)
        made = np.full(len(names), made_ns, np.int64)
        self._names += names
        self._ranges.add(Ranges(functions.starts, functions.ends, keys, made))
