"""Find names for addresses in files in the background, the quick ones first.

There are three threads. The first opens symbol tables. It names all addresses of a module within
milliseconds of the module's turn. Small modules come first, so libc does not wait for a program of
100 MB. The second has debug information read by a process of its own (``worker``), which takes
seconds for large files. The first then resolves the module's addresses again, now with inlined
functions and lines. Only modules that occur in a stack are read. The third restores tail calls
(``tail_calls``).

No file can make it raise: a problem becomes a note on the module.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ..model import Module, SymbolSource
from ..recording.names.inline_chains import LineSource
from ..recording.names.table import SymbolTable
from .advice import MAX_DEBUG_INFO_BYTES
from .background import BackgroundJobs
from .debuginfo.disk_cache import DiskCache
from .debuginfo.reader import DebugInfo
from .jit.names_thread import JitNames
from .line_thread import REST_AFTER_S, LineReader
from .locate.module_files import TargetFiles
from .locate.open_file import Root
from .module_work import Address, ModuleWork
from .names.limits import Budgets
from .resolver import ModuleResolver
from .table_loader import Loader
from .tail_calls import Column, TailCalls

if TYPE_CHECKING:
    # Its web client takes 50 ms to import, so it is imported only if it is used.
    from .locate.debuginfod import Debuginfod

# Most files kept open before their modules occur in a stack. Chromium maps 150; the usual limit on
# descriptors is 1024.
MAX_HELD_FILES = 512
# Addresses resolved before the next module is chosen: about 10 ms.
BATCH = 4000
# How long to wait for a thread that reads from a file server; after that, its files stay open.
CLOSE_TIMEOUT_S = 2.0


class ModuleNames:
    """Fills a symbol table with the names of addresses in files; see the module docstring.

    Args:
        table: receives the names.
        pid: a process that sees the files, or ``None`` if it runs elsewhere or has ended: then
            paths are those of this machine.
        inlines: whether inlined functions become frames.
        symbol_dirs: folders with debug files, flat or by build-id.
        debuginfod: asked for files that this machine does not have; ``None`` for no requests.
        cache_dir: folder for symcaches, by default ``~/.cache/flametap/symcache``.
        names_remedies: whether notes name the packages of missing debug files (0.2 s).

    Attributes:
        budgets: what the names of all modules may use together.
    """

    def __init__(
        self,
        table: SymbolTable,
        pid: int | None,
        *,
        inlines: bool = True,
        symbol_dirs: Sequence[str] = (),
        debuginfod: Debuginfod | None = None,
        cache_dir: Path | None = None,
        names_remedies: bool = True,
    ) -> None:
        self._table = table
        self._names_remedies = names_remedies
        self._files = TargetFiles(pid, symbol_dirs, debuginfod)
        self._jobs = BackgroundJobs()
        self._cache = DiskCache(cache_dir)
        self.budgets = Budgets()
        self._debug_info = DebugInfo(self._files, self._cache, self.budgets)
        self._loader = Loader(self._files, self._debug_info, self.budgets, inlines=inlines)
        self._works: dict[int, ModuleWork] = {}
        self._generated: dict[int, Callable[[Iterable[Address]], None]] = {}
        self._orphans: dict[int, list[Address]] = {}  # of modules that were not added yet
        self._held = 0
        self._pending = 0
        self._remedies_sought = 0
        self._closing = False
        self._changed = threading.Condition()
        self._line_reader = LineReader(self._changed, self._debug_info, self._finish_lines)
        self._tail_calls = TailCalls(table, self._changed, self._debug_info)
        self._threads = [
            threading.Thread(target=self._name_loop, name="flametap-names", daemon=True),
            threading.Thread(target=self._line_reader.run, name="flametap-lines", daemon=True),
            threading.Thread(target=self._tail_calls.run, name="flametap-calls", daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    def add_module(self, module: Module, generated: Callable[[Iterable[Address]], None]) -> None:
        """Add a module, and open its file at once, before the target can exit.

        Args:
            module: it.
            generated: called with its addresses, by runtime_addr, if it is code that is made while
                the program runs.
        """
        with self._changed:
            if self._closing:
                return
            is_known = module.module_id in self._works
            hold = not is_known and self._held < MAX_HELD_FILES
            self._held += hold
        if is_known:
            return
        work = ModuleWork(module, is_main=self._files.is_main_executable(module.path))
        if hold:
            self._loader.open(work)
        with self._changed:
            self._works[module.module_id] = work
            self._generated[module.module_id] = generated
            self._enqueue(work, self._orphans.pop(module.module_id, []))

    def submit(self, by_module: Mapping[int, Sequence[Address]]) -> None:
        """Request the names of addresses, each once. Their modules may be added later.

        Args:
            by_module: ``module_id`` → ids and file_addrs.
        """
        with self._changed:
            for module_id, asked in by_module.items():
                self._pending += len(asked)
                work = self._works.get(module_id)
                if work is None:
                    self._orphans.setdefault(module_id, []).extend(asked)
                else:
                    self._enqueue(work, asked)

    def submit_calls(self, module_id: Column, *pairs: Column) -> None:
        """Request the functions without a frame between callers and callees; see ``TailCalls``."""
        with self._changed:
            self._tail_calls.submit(module_id, pairs)

    def kernel_call(self, module_id: int, file_addr: int) -> int | None:
        """Return the system call number of a thread at an address; None if it is in none.

        Reads a few bytes, at once. Addresses of modules that were not added are in none.
        """
        work = self._works.get(module_id)
        return None if work is None else work.kernel_call(file_addr)

    @property
    def pending(self) -> int:
        """The number of addresses without their final names."""
        return self._pending

    @property
    def is_idle(self) -> bool:
        """True if all addresses of added modules have final names, and all modules final notes."""
        with self._changed:
            return self._closing or self._is_settled()

    @property
    def note(self) -> str:
        """A note about all modules, ``""`` if there is none."""
        return self._cache.note

    def hurry(self) -> None:
        """Somebody waits for names: they are read at a normal priority from now on."""
        self._debug_info.hurry()

    def wait_idle(self, timeout_s: float) -> bool:
        """Wait until all is named as far as it can be; return False after a timeout."""
        with self._changed:
            return self._changed.wait_for(lambda: self._closing or self._is_settled(), timeout_s)

    def _is_settled(self) -> bool:
        orphans = sum(map(len, self._orphans.values()))
        is_named = self._pending == orphans and not self._remedies_sought
        return is_named and self._tail_calls.is_idle

    def sources(self) -> list[SymbolSource]:
        """Return the sources of names of each module that occurs in a stack."""
        with self._changed:
            return [work.symbol_source() for work in self._works.values() if work.seen]

    def work_on(self, module_id: int) -> ModuleWork | None:
        """Return the state of a module; None if it was not added."""
        return self._works.get(module_id)

    @property
    def roots(self) -> tuple[Root, ...]:
        """Where a path of the target is valid: its root, if it is known."""
        return self._files.roots

    def close(self) -> None:
        """End the threads and close all files. Names that are missing then will not be found."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        self._tail_calls.close()
        self._line_reader.close()
        self._files.stop_fetching()
        has_stopped = self._jobs.close(CLOSE_TIMEOUT_S)
        for thread in self._threads:
            thread.join(timeout=CLOSE_TIMEOUT_S)
        if has_stopped and not any(thread.is_alive() for thread in self._threads):
            for work in self._works.values():
                work.close()
            self._files.close()

    def _enqueue(self, work: ModuleWork, asked: Sequence[Address]) -> None:
        if asked:
            work.seen = True
            work.waiting += asked
            self._changed.notify_all()

    # -- names thread ---------------------------------------------------------------------------

    def _name_loop(self) -> None:
        while True:
            with self._changed:
                has_work = self._changed.wait_for(self._has_names_work, REST_AFTER_S)
            if not has_work:
                self._debug_info.rest_small()
            with self._changed:
                self._changed.wait_for(self._has_names_work)
                work = self._next_work()
                if self._closing or work is None:
                    return
            if work.source == "pending":
                self._load(work)
            with self._changed:
                asked = work.take(BATCH)
            self._name(work, asked)

    def _has_names_work(self) -> bool:
        return self._closing or self._next_work() is not None

    def _next_work(self) -> ModuleWork | None:
        """Return the module whose addresses are named next; None if no address waits."""
        ready = (work for work in self._works.values() if work.has_work)
        return min(ready, key=ModuleWork.name_cost, default=None)

    def _load(self, work: ModuleWork, *, was_fetched: bool = False) -> None:
        """Open the symbol tables of a module, and queue its debug information.

        Args:
            work: the module.
            was_fetched: the servers were already asked for missing files.
        """
        source, resolver, note = self._loader.load(work, was_fetched=was_fetched)
        asks_servers = not was_fetched and self._files.can_fetch(
            work.module, work.image, work.debug
        )
        with self._changed:
            named, work.provisional = work.provisional or [], None
            work.source, work.note, work.resolver = source, note, resolver
            if resolver is not None and resolver.lines is not None:
                work.again += named
                self._has_lines(work, "")
            elif asks_servers:
                work.provisional = []
                work.note = "asking debuginfod"
                self._jobs.add(lambda: self._fetch(work))
            elif resolver is not None and 0 < work.debug_cost() <= MAX_DEBUG_INFO_BYTES:
                work.provisional = named
                self._line_reader.add(work)
            else:
                work.again += named
                work.close_debug()
                self._tail_calls.cannot_be_read(work)
                if self._names_remedies:
                    self._remedies_sought += 1
                    self._jobs.add(lambda: self._find_remedy(work, resolver))
            self._changed.notify_all()

    def _name(self, work: ModuleWork, asked: list[Address]) -> None:
        resolver = work.resolver
        if resolver is None and JitNames.is_generated(work.module):
            self._name_generated(work, asked)
            return
        had_lines = resolver is None or resolver.lines is not None
        work.name(asked, self._table)
        with self._changed:
            if work.provisional is not None:
                work.provisional += asked
            elif work.resolver is not resolver or (
                resolver is not None and resolver.lines is not None and not had_lines
            ):
                work.again += asked  # lines arrived while these were resolved without them
            else:
                self._pending -= len(asked)
            self._changed.notify_all()

    def _name_generated(self, work: ModuleWork, asked: list[Address]) -> None:
        """Pass addresses of a module on to the names of generated code: it has no real file."""
        work.note = "generated while the program runs: see [jit]"
        bias = work.module.load_bias
        generated = self._generated[work.module.module_id]
        generated((address_id, file_addr + bias) for address_id, file_addr in asked)
        with self._changed:
            self._pending -= len(asked)
            self._changed.notify_all()

    # -- background threads ---------------------------------------------------------------------

    def _fetch(self, work: ModuleWork) -> None:
        """Ask servers for a module's missing files, then load the module again."""
        with contextlib.suppress(Exception):  # the module's rejected files report the problem
            self._files.fetch(work.module, work.image, work.debug)
        if not self._closing:
            self._load(work, was_fetched=True)

    def _find_remedy(self, work: ModuleWork, resolver: ModuleResolver | None) -> None:
        """Find the package that provides a module's debug file, and add it to the note."""
        remedy = ""
        with contextlib.suppress(Exception):  # then no package is named
            remedy = self._files.remedy(work.module)
        with self._changed:
            self._remedies_sought -= 1
            if remedy and resolver is not None:
                work.note = work.missing(resolver, self._files, remedy)
            self._changed.notify_all()

    # -- lines thread ---------------------------------------------------------------------------

    def _finish_lines(self, work: ModuleWork, lines: LineSource | None, note: str) -> None:
        named, work.provisional = work.provisional or [], None
        if lines is None or work.resolver is None:
            self._pending -= len(named)
            work.note = note
            self._tail_calls.cannot_be_read(work)
        else:
            work.resolver.lines = lines
            work.again += named
            self._has_lines(work, note)
        work.close_debug()
        self._changed.notify_all()

    def _has_lines(self, work: ModuleWork, note: str) -> None:
        work.source, work.note = "symcache", note
        self._tail_calls.can_be_read(work)
