"""Find names for generated code, which is in no file: in the files that its runtime writes, and in
what it registers for debuggers in its memory.

This runs in a thread of its own, because a map of 10^6 lines takes a second to read. It starts with
the first address. An address gets its name when it is first seen, from what is known then, and
keeps it, because the runtime may reuse the memory for other code. For addresses without a name we
try again whenever a map has grown, once a second: ``jcmd PID Compiler.perfmap`` writes a map only
on the user's request.

No file can make it raise: a problem becomes a note.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from ...linux.procfs import PROC
from ...model import Frame, Function, Module, RawFrame, SymbolSource
from ...recording.names.table import JIT_MODULE, SymbolTable, unnamed_function
from .code_ranges import ANY_TIME_NS
from .code_reader import CodeReader
from .files import JitFiles, is_jitdump
from .growing_file import Growth
from .jitdump import JitDump
from .names import frames_of
from .perfmap import PerfMap
from .registered import RegisteredCode
from .runtimes import RuntimeFinder

RETRY_S = 1.0
# Dumps that are read. A process has one, and its parent's if it was forked.
MAX_DUMPS = 16
# Files of mappings with generated code: memory that is mapped twice, writable at one address and
# executable at the other.
_SHARED_MEMORY = ("/memfd:", "/dev/zero", "/SYSV", "/dev/shm/")


class _Asked(NamedTuple):
    address_id: int
    runtime_addr: int
    seen_ns: int  # CLOCK_MONOTONIC of the target; ANY_TIME_NS if unknown


class JitNames:
    """The names of generated code; see the module docstring.

    Args:
        table: receives the names.
        pid: the target, or ``None`` if it runs elsewhere or has ended: then no code has a name.
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
        self._registered = None if pid is None else RegisteredCode(pid, proc)
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
        # Used only by the thread.
        self._nameless: list[_Asked] = []
        self._frames: dict[tuple[CodeReader, int], tuple[Frame, ...]] = {}

    @staticmethod
    def is_generated(module: Module) -> bool:
        """Return True if the module's code is in memory to which a runtime writes."""
        return not module.build_id and module.path.startswith(_SHARED_MEMORY)

    def see_module(self, module: Module) -> None:
        """Check whether a module shows which runtime the target has, or is a jitdump."""
        with self._changed:
            self._runtimes.see(module.name)
            if self._files is not None and is_jitdump(module):
                self._new_dumps.append(JitDump(self._files.jitdump(module)))
                self._wake()

        self.see_again()

    def see_again(self) -> None:
        """Look for what libraries register: one may have been loaded."""
        if self._registered is not None:
            self._registered.see_module()

    def submit(self, addresses: Iterable[tuple[int, int]], seen_ns: int = 0) -> None:
        """Request the names of addresses.

        Args:
            addresses: address id and runtime_addr, each once.
            seen_ns: upper bound of the time at which they were seen, CLOCK_MONOTONIC of the target;
                0 if unknown.
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
        """The number of addresses for which we have not looked for a name yet."""
        return len(self._queue) + self._in_work

    @property
    def is_idle(self) -> bool:
        """True if we have looked for the names of all addresses.

        That includes everything written before the last ``look_again``.
        """
        is_done = not self.pending and self._passes_done >= self._passes_wanted
        return self._thread is None or self._closing or is_done

    def look_again(self) -> None:
        """Look for names once more, in everything written by now."""
        with self._changed:
            if self._registered is not None:
                self._registered.hurry()
            if self._thread is not None:
                self._passes_wanted = self._passes_begun + 1
                self._changed.notify_all()

    @property
    def name_count(self) -> int:
        """The number of pieces of code whose names were read."""
        return sum(len(reader) for reader in self._readers())

    def wait_idle(self, timeout_s: float) -> bool:
        """Wait until we have looked for names in all files as of now; False after a timeout."""
        with self._changed:
            self.look_again()
            return self._changed.wait_for(lambda: self.is_idle, timeout_s)

    def sources(self) -> list[SymbolSource]:
        """Return the source of names: one entry, or none if no generated code was seen."""
        with self._changed:
            return [self._source()] if self._total else []

    def look(self, timeout_s: float) -> SymbolSource:
        """Return the source of names, even if no address was submitted."""
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
        """End the thread and close all files. Names that are missing then will not be found."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join(timeout=0.5)
            if self._thread.is_alive():  # it waits for a file system that does not answer
                return
        for reader in self._readers():
            reader.close()
        if self._files is not None:
            self._files.close()

    def _wake(self) -> None:
        if self._thread is None and not self._closing:
            self._thread = threading.Thread(target=self._loop, name="flametap-jit", daemon=True)
            self._thread.start()
        self._changed.notify_all()

    def _readers(self) -> list[CodeReader]:
        """Return the dumps, which have times and lines, then what has times, then the perf map."""
        others = (self._registered, self._map)
        return [*self._dumps, *(reader for reader in others if reader is not None)]

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
        """Read what was written since the last call; return True if anything was."""
        has_grown = False
        for reader in self._readers():
            with contextlib.suppress(OSError):  # the file system fails
                growth = reader.look()
                if growth is Growth.ANEW:
                    self._forget_frames(reader)
                while growth is not Growth.NONE and not self._closing:
                    has_grown = True
                    if not reader.read_more():
                        break
        return has_grown

    def _forget_frames(self, reader: CodeReader) -> None:
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
        self, reader: CodeReader, key: int, start: int, runtime_addr: int
    ) -> tuple[Frame, ...]:
        """Return the frames of an address; none if its name cannot be read (any more)."""
        frames = self._frames.get((reader, key))
        if frames is None:
            name = reader.name(key, start)
            frames = frames_of(name) if name else ()
            self._frames[reader, key] = frames = frames if self._inlines else frames[:1]
        if isinstance(reader, JitDump) and len(frames) == 1:
            return (_with_line(frames[0], reader, key, start, runtime_addr),)
        return frames

    # -- notes ----------------------------------------------------------------------------------

    def _notes(self, has_names: bool) -> Iterable[str]:
        for reader in self._readers():
            yield from reader.notes()
        if self._nameless:
            yield f"{len(self._nameless):,} of {self._total:,} addresses have no name"
        if self._nameless or not self._total:
            runtime = self._runtimes.runtime
            if self._dumps and has_names:
                yield "the runtime may write to its jitdump with a delay"
            elif runtime is not None and (not has_names or runtime.keeps_no_map):
                yield runtime.remedy.format(pid=self._pid)


def _with_line(frame: Frame, dump: JitDump, key: int, start: int, runtime_addr: int) -> Frame:
    """Return the frame with the source line of the address, if the dump has it."""
    found = dump.source_line(key, start, runtime_addr)
    if found is None:
        return frame
    function = frame.function
    if not function.file:
        # One function, one file, one box: use the file of its first instruction.
        entry = dump.source_line(key, start, start)
        file = entry.file if entry is not None else found.file
        function = Function(function.name, function.module, file, function.kind, function.full_name)
    # A line of another file belongs to an inlined function, whose name is in no dump. And V8's file
    # names may be damaged.
    return Frame(function, found.line if found.file in ("", function.file) else 0)
