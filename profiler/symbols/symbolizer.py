"""Names for addresses, in the background, the quick ones first.

Two threads. The first opens symbol tables and gives every address a name within milliseconds of
its module's turn: small modules first, so that a program of 100 MB does not keep libc waiting.
The second reads debug information, which takes seconds for large files, and then has the first
resolve the module's addresses again, now with inlined functions and lines. Only modules that were
seen on a stack are read. The second thread runs at a lower priority: it may be sharing cores with
the target.

No file can make it raise: what goes wrong becomes a note on the module.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from flametap.model import Frame, Module, RawFrame, SymbolSource
from flametap.symbols import symcache
from flametap.symbols.cache import DiskCache
from flametap.symbols.elf import ElfFile
from flametap.symbols.files import FilesError, TargetFiles
from flametap.symbols.openfile import Image
from flametap.symbols.resolver import ModuleResolver
from flametap.symbols.table import SymbolTable, unnamed_function

# Files held open for modules not seen on a stack yet. Chromium maps 150; the usual limit on
# descriptors is 1024.
MAX_HELD_FILES = 512
# Addresses resolved before another module may have its turn: about 10 ms.
BATCH = 200
# A main executable up to this size of its symbol tables goes first whatever the other sizes.
MAIN_FIRST_BYTES = 4 << 20
# .debug_info above this needs minutes and gigabytes; the symbol table has to do.
MAX_DEBUG_INFO_BYTES = 2 << 30
_NICE = 5

_Address = tuple[int, int]  # address id, file_addr


@dataclass(eq=False)
class _Work:
    """What is known of one module, and its addresses on their way. Guarded by the lock."""

    module: Module
    is_main: bool = False
    image: Image | None = None  # the module's own file
    debug: Image | None = None  # its separate debug file, held until the symcache is there
    resolver: ModuleResolver | None = None
    source: str = "pending"
    note: str = ""
    waiting: list[_Address] = field(default_factory=list)  # have no name yet
    # Have a name and wait for debug information; None when there is none (more) to wait for.
    provisional: list[_Address] | None = None
    again: list[_Address] = field(default_factory=list)  # have a name, and lines can be had now
    seen: bool = False

    def debug_image(self) -> Image | None:
        """The file with DWARF."""
        for image in (self.image, self.debug):
            if image is not None and image.elf.debug_info_bytes:
                return image
        return None


class Symbolizer:
    """Fills a symbol table.

    Args:
        table: receives the names.
        pid: the target, or ``None`` when it runs elsewhere or no more: paths are then ours.
        inlines: whether inlined functions become frames.
        symbol_dirs: folders with debug files, flat or laid out by build-id.
        cache_dir: where symcaches are kept, by default ``~/.cache/flametap/symcache``.
    """

    def __init__(
        self,
        table: SymbolTable,
        pid: int | None,
        *,
        inlines: bool = True,
        symbol_dirs: Sequence[str] = (),
        cache_dir: Path | None = None,
    ) -> None:
        self._table = table
        self._files = TargetFiles(pid, symbol_dirs)
        self._cache = DiskCache(cache_dir)
        self._inlines = inlines
        self._works: dict[int, _Work] = {}
        self._orphans: dict[int, list[_Address]] = {}  # module not announced yet
        self._to_build: list[_Work] = []
        self._held = 0
        self._pending = 0
        self._closing = False
        self._changed = threading.Condition()
        self._threads = [
            threading.Thread(target=self._name_loop, name="flametap-names", daemon=True),
            threading.Thread(target=self._build_loop, name="flametap-debug-info", daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    def add_module(self, module: Module) -> None:
        """Announces a module and opens its file at once, before the target can exit."""
        with self._changed:
            if self._closing or module.module_id in self._works:
                return
            hold = self._held < MAX_HELD_FILES
            self._held += hold
        work = _Work(module, is_main=self._files.is_main_executable(module.path))
        if hold:
            self._open(work)
        with self._changed:
            self._works[module.module_id] = work
            self._enqueue(work, self._orphans.pop(module.module_id, []))

    def submit(self, address_id: int, frame: RawFrame) -> None:
        """Asks for the names of one address."""
        self.submit_many([(address_id, frame)])

    def submit_many(self, addresses: Iterable[tuple[int, RawFrame]]) -> None:
        """Asks for the names of addresses, each once; the module may be announced later."""
        by_module: dict[int, list[_Address]] = {}
        for address_id, frame in addresses:
            if frame.module_id == 0:
                self._table.set(address_id, (Frame(unnamed_function(frame, "")),))
            else:
                by_module.setdefault(frame.module_id, []).append((address_id, frame.addr))
        with self._changed:
            for module_id, asked in by_module.items():
                self._pending += len(asked)
                work = self._works.get(module_id)
                if work is None:
                    self._orphans.setdefault(module_id, []).extend(asked)
                else:
                    self._enqueue(work, asked)

    @property
    def pending(self) -> int:
        """Addresses whose final names are still to come."""
        return self._pending

    @property
    def note(self) -> str:
        """A remark that concerns all modules, ``""`` if there is none."""
        return self._cache.note

    def wait_idle(self, timeout_s: float) -> bool:
        """Waits until all addresses of announced modules have their final names.

        Returns:
            False when the time was not enough.
        """
        with self._changed:
            return self._changed.wait_for(
                lambda: self._closing or self._pending == sum(map(len, self._orphans.values())),
                timeout_s,
            )

    def sources(self) -> list[SymbolSource]:
        """Where names come from, for each module that was seen on a stack."""
        with self._changed:
            return [
                SymbolSource(
                    work.module.module_id,
                    work.module.name,
                    work.source,
                    work.note,
                    has_lines=work.source in ("symcache", "gopclntab"),
                )
                for work in self._works.values()
                if work.seen
            ]

    def close(self) -> None:
        """Ends the threads and closes all files; names that are not there by now never come."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        for thread in self._threads:
            # A symcache being built cannot be broken off; the thread ends by itself after it.
            thread.join(timeout=0.5)
        if not any(thread.is_alive() for thread in self._threads):
            for work in self._works.values():
                self._close_files(work)

    def _enqueue(self, work: _Work, asked: list[_Address]) -> None:
        if asked:
            work.seen = True
            work.waiting += asked
            self._changed.notify_all()

    # -- names thread ---------------------------------------------------------------------------

    def _name_loop(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._closing or self._next_work() is not None)
                work = self._next_work()
                if self._closing or work is None:
                    return
            if work.source == "pending":
                self._load(work)
            with self._changed:
                if work.waiting:
                    asked, work.waiting = work.waiting[:BATCH], work.waiting[BATCH:]
                else:
                    asked, work.again = work.again[:BATCH], work.again[BATCH:]
            self._name(work, asked)

    def _next_work(self) -> _Work | None:
        """The module whose addresses are to be named next."""
        ready = [work for work in self._works.values() if work.waiting or work.again]
        return min(ready, key=_name_cost, default=None)

    def _open(self, work: _Work) -> None:
        try:
            work.image = self._files.open_module(work.module)
        except FilesError as error:
            work.note = str(error)
        except Exception as error:  # never raises for a bad file: the note tells
            work.note = f"cannot be read: {error}"

    def _load(self, work: _Work) -> None:
        """Opens the symbol tables of a module, and queues its debug information."""
        if work.image is None and not work.note:
            self._open(work)
        source, note = "none", work.note
        if work.image is not None:
            try:
                work.resolver = self._load_tables(work, work.image.elf)
                source, note = work.resolver.tables, _advice(work)
            except Exception as error:  # never raises for a bad file: the note tells
                note = f"symbols cannot be read: {error}"
        with self._changed:
            work.source, work.note = source, note
            if work.resolver is not None and 0 < _debug_cost(work) <= MAX_DEBUG_INFO_BYTES:
                work.provisional = []
                self._to_build.append(work)
            elif work.debug is not None:
                work.debug.close()
            self._changed.notify_all()

    def _load_tables(self, work: _Work, elf: ElfFile) -> ModuleResolver:
        if not elf.debug_info_bytes:
            work.debug = self._files.open_debug_file(work.module, elf)
        debug = None if work.debug is None else work.debug.elf
        return ModuleResolver(work.module, elf, debug, inlines=self._inlines)

    def _name(self, work: _Work, asked: list[_Address]) -> None:
        resolver = work.resolver
        had_symcache = resolver is None or resolver.symcache is not None
        for address_id, file_addr in asked:
            try:
                if resolver is None:
                    raw = RawFrame(work.module.module_id, file_addr)
                    frames: Sequence[Frame] = (Frame(unnamed_function(raw, work.module.name)),)
                else:
                    frames = resolver.resolve(file_addr)
            except Exception as error:  # never raises for a bad file: the note tells
                work.note = f"symbols cannot be read: {error}"
                raw = RawFrame(work.module.module_id, file_addr)
                frames = (Frame(unnamed_function(raw, work.module.name)),)
            self._table.set(address_id, frames)
        with self._changed:
            if work.provisional is not None:
                work.provisional += asked
            elif resolver is not None and resolver.symcache is not None and not had_symcache:
                work.again += asked  # the symcache came while they were resolved without it
            else:
                self._pending -= len(asked)
            self._changed.notify_all()

    # -- debug information thread ---------------------------------------------------------------

    def _build_loop(self) -> None:
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICE)
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._closing or bool(self._to_build))
                if self._closing:
                    return
                work = min(self._to_build, key=_debug_cost)
                self._to_build.remove(work)
            try:
                cache, note = self._read_debug_info(work), ""
            except Exception as error:  # never raises for a bad file: the note tells
                cache, note = None, str(error)
            with self._changed:
                self._finish_debug_info(work, cache, note)

    def _read_debug_info(self, work: _Work) -> symcache.Symcache:
        image = work.debug_image()
        assert image is not None
        assert image.file is not None
        build_id, base_addr = image.elf.build_id, image.elf.base_addr
        if build_id:
            payload = self._cache.load(build_id, image.file.size)
            if payload is not None:
                with contextlib.suppress(symcache.SymcacheError):
                    return symcache.load(payload, base_addr)
        built = symcache.build(image.file.fd_path, base_addr)
        if build_id:
            self._cache.save(build_id, image.file.size, built.to_bytes())
        return built

    def _finish_debug_info(self, work: _Work, cache: symcache.Symcache | None, note: str) -> None:
        work.note = note
        named, work.provisional = work.provisional or [], None
        if cache is None or work.resolver is None:
            self._pending -= len(named)
        else:
            work.resolver.symcache = cache
            work.source = "symcache"
            work.again += named
        if work.debug is not None:
            work.debug.close()
        self._changed.notify_all()

    def _close_files(self, work: _Work) -> None:
        for image in (work.image, work.debug):
            if image is not None:
                image.close()


def _name_cost(work: _Work) -> tuple[int, int]:
    """What is done first: names from tables that are open, then from those that are not, smallest
    first, then lines for what has names.
    """
    if not work.waiting:
        return (3, len(work.again))
    if work.source != "pending" or work.image is None:
        return (0, len(work.waiting))
    elf = work.image.elf
    tables = [elf.section(".symtab"), elf.section(".dynsym")]
    size = sum(section.size for section in tables if section is not None)
    return (1 if work.is_main and size <= MAIN_FIRST_BYTES else 2, size)


def _debug_cost(work: _Work) -> int:
    image = work.debug_image()
    return 0 if image is None else image.elf.debug_info_bytes


def _advice(work: _Work) -> str:
    """What is still to come or missing in a module, and how to get it."""
    assert work.image is not None
    assert work.resolver is not None
    debug_info_bytes = _debug_cost(work)
    if debug_info_bytes > MAX_DEBUG_INFO_BYTES:
        return "too much debug information to read: no inlined functions and lines"
    if debug_info_bytes:
        return "reading debug information"
    if work.resolver.tables == "gopclntab":
        lacks = ": no inlined functions" if work.resolver.lacks_inlines else ""
        return f"names and lines from Go's own table{lacks}"
    if work.resolver.tables == "symtab":
        return "no debug information: no inlined functions and lines"
    what = "only exported names" if work.resolver.tables == "dynsym" else "no names"
    build_id = work.image.elf.build_id
    which = f" for build-id {build_id}" if build_id else ""
    return f"stripped: {what}; install its debug package or give --symbol-dir a file{which}"
