"""Names for code outside any file: what the target's runtime says of the code that it makes.

One thread of its own, started with the first address, because a map of 10^6 lines takes a second
to read. An address gets its name when it is first seen, from what is known then, and keeps it:
memory is used again for other code. What has no name yet is tried again whenever a map has grown,
once a second: ``jcmd PID Compiler.perfmap`` writes one when the user asks for it.

No file can make it raise: what goes wrong becomes a note.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from ...linux.procfs import PROC
from ...model import Frame, Function, Module, RawFrame, SymbolSource
from ..names.table import JIT_MODULE, SymbolTable, unnamed_function
from .code_ranges import ANY_TIME_NS
from .files import JitFiles, is_jitdump
from .growing_file import Growth
from .jitdump import JitDump
from .names import frames_of
from .perfmap import PerfMap
from .runtimes import RuntimeFinder

RETRY_S = 1.0
# Dumps read; a process has one, and its parent's if it was forked.
MAX_DUMPS = 16
# Files behind mappings that hold generated code: memory that is mapped twice, writable at one place
# and executable at the other.
_SHARED_MEMORY = ("/memfd:", "/dev/zero", "/SYSV", "/dev/shm/")

_Reader = JitDump | PerfMap


class _Asked(NamedTuple):
    address_id: int
    runtime_addr: int
    seen_ns: int  # CLOCK_MONOTONIC of the target; ANY_TIME_NS: not known


class JitNames:
    """See the module docstring.

    Args:
        table: receives the names.
        pid: the target, or ``None`` when it runs elsewhere or no more: nothing has a name then.
        inlines: whether inlined functions become frames.
        proc: where procfs is mounted.
    """

    def __init__(
        self, table: SymbolTable, pid: int | None, *, inlines: bool = True, proc: str = PROC
    ) -> None:
        self._table = table
        self._pid = pid
        self._inlines = inlines
        self._files = None if pid is None else JitFiles(pid, proc)
        self._map = None if self._files is None else PerfMap(self._files.perf_map())
        self._dumps: list[JitDump] = []
        self._runtimes = RuntimeFinder()
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        # Guarded by the lock.
        self._queue: list[_Asked] = []
        self._new_dumps: list[JitDump] = []
        self._in_work = 0
        self._passes_begun = self._passes_done = self._passes_wanted = 0
        self._closing = False
        self._total = 0
        # The thread's own.
        self._nameless: list[_Asked] = []
        self._frames: dict[tuple[_Reader, int], tuple[Frame, ...]] = {}

    @staticmethod
    def is_generated(module: Module) -> bool:
        """Does that module's code lie in memory that a runtime writes to?"""
        return not module.build_id and module.path.startswith(_SHARED_MEMORY)

    def see_module(self, module: Module) -> None:
        """Take note of a module: of the runtime, or a jitdump."""
        with self._changed:
            self._runtimes.see(module.name)
            if self._files is not None and is_jitdump(module):
                self._new_dumps.append(JitDump(self._files.jitdump(module)))
                self._wake()

    def submit(self, addresses: Iterable[tuple[int, int]], seen_ns: int = 0) -> None:
        """Asks for the names of addresses.

        Args:
            addresses: address id and runtime_addr, each once.
            seen_ns: when they were seen at the latest, CLOCK_MONOTONIC of the target; 0: not known.
        """
        when_ns = seen_ns or ANY_TIME_NS
        with self._changed:
            before = len(self._queue)
            self._queue += (_Asked(address_id, addr, when_ns) for address_id, addr in addresses)
            if len(self._queue) > before:
                self._total += len(self._queue) - before
                self._wake()

    @property
    def pending(self) -> int:
        """Addresses that no name was looked for yet."""
        return len(self._queue) + self._in_work

    @property
    def is_idle(self) -> bool:
        """True when a name was looked for for all of them, in what was written by the time of
        ``look_again``.
        """
        is_done = not self.pending and self._passes_done >= self._passes_wanted
        return self._thread is None or self._closing or is_done

    def look_again(self) -> None:
        """Has names looked for once more in what is written by now."""
        with self._changed:
            if self._thread is not None:
                self._passes_wanted = self._passes_begun + 1
                self._changed.notify_all()

    @property
    def name_count(self) -> int:
        """Pieces of code that names were read for."""
        return sum(len(reader) for reader in self._readers())

    def wait_idle(self, timeout_s: float) -> bool:
        """Waits until names were looked for in all that is written by now. False: out of time."""
        with self._changed:
            self.look_again()
            return self._changed.wait_for(lambda: self.is_idle, timeout_s)

    def sources(self) -> list[SymbolSource]:
        """Where names come from: one entry, or none when no such code was seen."""
        with self._changed:
            return [self._source()] if self._total else []

    def look(self, timeout_s: float) -> SymbolSource:
        """What there is to take names from, whether or not an address was asked for."""
        with self._changed:
            self._wake()
        self.wait_idle(timeout_s)
        with self._changed:
            return self._source()

    def _source(self) -> SymbolSource:
        readers = self._readers()
        used = [reader for reader in readers if len(reader)]
        source = ", ".join(dict.fromkeys(reader.kind for reader in used)) or "none"
        note = "; ".join(self._notes(bool(used)))
        lines = any(reader.has_lines for reader in used)
        return SymbolSource(0, JIT_MODULE, source, note, has_lines=lines)

    def close(self) -> None:
        """Ends the thread and closes all files; names that are not there by now never come."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join(timeout=0.5)
            if self._thread.is_alive():  # a file system that does not answer
                return
        for reader in self._readers():
            reader.file.close()
        if self._files is not None:
            self._files.close()

    def _wake(self) -> None:
        if self._thread is None and not self._closing:
            self._thread = threading.Thread(target=self._loop, name="flametap-jit", daemon=True)
            self._thread.start()
        self._changed.notify_all()

    def _readers(self) -> list[_Reader]:
        """Dumps first: they know times and lines."""
        return [*self._dumps, *([] if self._map is None else [self._map])]

    # -- the thread -----------------------------------------------------------------------------

    def _loop(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(
                    lambda: (
                        self._closing
                        or self._queue
                        or self._new_dumps
                        or self._passes_begun < self._passes_wanted
                    ),
                    RETRY_S if self._nameless else None,
                )
                if self._closing:
                    return
                self._passes_begun += 1
                asked, self._queue = self._queue, []
                self._in_work = len(asked)
                self._dumps = [*self._dumps, *self._new_dumps][-MAX_DUMPS:]
                self._new_dumps = []
            if self._read():
                asked = self._nameless + asked
                self._nameless = []
            self._name(asked)
            with self._changed:
                self._in_work = 0
                self._passes_done = self._passes_begun
                self._changed.notify_all()

    def _read(self) -> bool:
        """Read what was written since; True if anything was."""
        has_grown = False
        for reader in self._readers():
            with contextlib.suppress(OSError):  # a file system that fails
                growth = reader.look()
                if growth is Growth.ANEW:
                    self._forget_frames(reader)
                while growth is not Growth.NONE and not self._closing:
                    has_grown = True
                    if not reader.read_more():
                        break
        return has_grown

    def _forget_frames(self, reader: _Reader) -> None:
        self._frames = {key: frames for key, frames in self._frames.items() if key[0] is not reader}

    def _name(self, asked: Sequence[_Asked]) -> None:
        for reader in self._readers():
            if not asked:
                return
            addresses = np.array([a.runtime_addr for a in asked], np.uint64)
            found = reader.find(addresses, np.array([a.seen_ns for a in asked], np.int64))
            named: list[int] = []
            names: list[tuple[Frame, ...]] = []
            left = []
            for one, key, start in zip(
                asked, found.key.tolist(), found.start.tolist(), strict=True
            ):
                frames = () if key < 0 else self._frames_of(reader, key, start, one.runtime_addr)
                if frames:
                    named.append(one.address_id)
                    names.append(frames)
                else:
                    left.append(one)
            self._table.set_many(named, names)
            asked = left
        stand_in = (Frame(unnamed_function(RawFrame(0, 0), "")),)
        self._table.set_many([one.address_id for one in asked], [stand_in] * len(asked))
        self._nameless += asked

    def _frames_of(
        self, reader: _Reader, key: int, start: int, runtime_addr: int
    ) -> tuple[Frame, ...]:
        """The frames of an address; none when its name cannot be read (any more)."""
        frames = self._frames.get((reader, key))
        if frames is None:
            name = reader.name(key, start)
            frames = frames_of(name) if name else ()
            self._frames[reader, key] = frames = frames if self._inlines else frames[:1]
        if isinstance(reader, JitDump) and len(frames) == 1:
            return (_with_line(frames[0], reader, key, start, runtime_addr),)
        return frames

    # -- what is said about it ------------------------------------------------------------------

    def _notes(self, has_names: bool) -> Iterable[str]:
        for reader in self._readers():
            file = reader.file
            if file.refusal:
                yield f"{file.path} is not used: {file.refusal}"
            if isinstance(reader, PerfMap):
                if reader.garbage:
                    yield f"{reader.garbage:,} lines of {file.path} make no sense"
                if reader.skipped_bytes:
                    yield f"the first {reader.skipped_bytes >> 20} MiB of {file.path} are left out"
            elif reader.problem:
                yield f"{file.path} is read no further: {reader.problem}"
            if reader.dropped:
                yield f"the oldest {reader.dropped:,} entries of {file.path} are left out"
        if self._nameless:
            yield f"{len(self._nameless):,} of {self._total:,} addresses have no name"
        if self._nameless or not self._total:
            runtime = self._runtimes.runtime
            if self._dumps and has_names:
                yield "a runtime may hold back what it writes next to a jitdump"
            elif runtime is not None and (not has_names or runtime.keeps_no_map):
                yield runtime.remedy.format(pid=self._pid)


def _with_line(frame: Frame, dump: JitDump, key: int, start: int, runtime_addr: int) -> Frame:
    """The frame with the source line of the address, if the dump knows it."""
    found = dump.source_line(key, start, runtime_addr)
    if found is None:
        return frame
    function = frame.function
    if not function.file:
        # One function, one file, one box: that of its first instruction.
        entry = dump.source_line(key, start, start)
        file = entry.file if entry is not None else found.file
        function = Function(function.name, function.module, file, function.kind, function.full_name)
    # A line of another file is an inlined function's, whose name no dump has; and V8's file names
    # may be torn.
    return Frame(function, found.line if found.file in ("", function.file) else 0)
