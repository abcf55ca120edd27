"""Find the names of a process's addresses in the background.

Code in files is named by ``ModuleNames``, which several processes share; code that the process made
while it ran, and functions of interpreted programs, are named from its memory.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ..model import MANAGED, MARKS, Module, RawFrame, SymbolSource
from ..recording.names.table import SymbolTable
from ..wire.events import Code
from .interpreters.found import FoundInterpreter
from .interpreters.managed_names import ManagedNames
from .jit.names_thread import JitNames
from .locate.open_file import Root
from .locate.source_text import SourceText
from .module_names import ModuleNames
from .module_work import Address, ModuleWork
from .tail_calls import Column

if TYPE_CHECKING:
    # Its web client takes 50 ms to import, so it is imported only if it is used.
    from .locate.debuginfod import Debuginfod


class Symbolizer:
    """Fills a symbol table with the names of one process.

    Args:
        table: receives the names.
        pid: the target, or ``None`` if it runs elsewhere or has ended: then paths are those of this
            machine.
        inlines: whether inlined functions become frames.
        symbol_dirs: folders with debug files, flat or by build-id.
        debuginfod: asked for files that this machine does not have; ``None`` for no requests.
        cache_dir: folder for symcaches, by default ``~/.cache/flametap/symcache``.
        names_remedies: whether notes name the packages of missing debug files (0.2 s).
        modules: names code in files; those of another process with the same files, or by default
            its own, for which ``symbol_dirs``, ``debuginfod``, ``cache_dir`` and ``names_remedies``
            are.

    Attributes:
        modules: see above.
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
        modules: ModuleNames | None = None,
    ) -> None:
        self._table = table
        self._has_own_modules = modules is None
        self.modules = modules or ModuleNames(
            table,
            pid,
            inlines=inlines,
            symbol_dirs=symbol_dirs,
            debuginfod=debuginfod,
            cache_dir=cache_dir,
            names_remedies=names_remedies,
        )
        roots, budgets = self.modules.roots, self.modules.budgets
        self._seen: set[int] = set()  # modules
        self._is_closed = False
        self._jit = JitNames(table, pid, inlines=inlines)
        self._managed = ManagedNames(table, roots, budgets, pid=pid, inlines=inlines)

    def add_module(self, module: Module) -> None:
        """Add a module, and open its file at once, before the target can exit."""
        if module.module_id in self._seen:  # it was unloaded, and is loaded again
            self._jit.see_again()
            return
        self._seen.add(module.module_id)
        self._jit.see_module(module)
        self.modules.add_module(module, self._jit.submit)

    def set_interpreters(self, found: Iterable[FoundInterpreter]) -> None:
        """Say which interpreters the target has."""
        self._managed.set_interpreters(found)

    def add_codes(self, codes: Iterable[Code]) -> None:
        """Add functions of interpreted programs."""
        self._managed.add_codes(codes)

    def submit_many(self, addresses: Iterable[tuple[int, RawFrame]], seen_ns: int = 0) -> None:
        """Request the names of addresses, each once. Their modules may be added later.

        Args:
            addresses: address ids and their frames.
            seen_ns: upper bound of the time at which they were seen, CLOCK_MONOTONIC of the target;
                0 if unknown.
        """
        by_module: dict[int, list[Address]] = {}
        for address_id, frame in addresses:
            if frame in MARKS:
                continue
            by_module.setdefault(frame.module_id, []).append((address_id, frame.addr))
        self._jit.submit(by_module.pop(0, ()), seen_ns)
        self._managed.submit(by_module.pop(MANAGED, ()))
        self.modules.submit(by_module)

    def submit_calls(self, module_id: Column, *pairs: Column) -> None:
        """Request the functions without a frame between callers and callees; see ``TailCalls``."""
        self.modules.submit_calls(module_id, *pairs)

    def submit_leaves(self, leaves: Iterable[tuple[int, RawFrame]]) -> None:
        """Find which of the addresses at which stacks end are in system calls.

        Reads a few bytes for each, at once. Addresses of modules that were not added are skipped.
        """
        found = []
        for address_id, frame in leaves:
            call = self.modules.kernel_call(frame.module_id, frame.addr)
            if call is not None:
                found.append((address_id, call))
        if found:
            self._table.set_kernel(found)

    @property
    def pending(self) -> int:
        """The number of addresses without their final names."""
        return self.modules.pending + self.own_pending

    @property
    def own_pending(self) -> int:
        """The number of those that are in no file."""
        return self._jit.pending + self._managed.pending

    @property
    def is_idle(self) -> bool:
        """True if all addresses of added modules have final names, and all modules final notes."""
        is_idle = self.modules.is_idle and self._jit.is_idle and self._managed.is_idle
        return self._is_closed or is_idle

    def look_again(self) -> None:
        """Look again for names of generated code. Call it when no more addresses will come.

        A runtime may have written a name since the first look.
        """
        self._jit.look_again()

    @property
    def note(self) -> str:
        """A note about all modules, ``""`` if there is none."""
        return self.modules.note

    def hurry(self) -> None:
        """Somebody waits for names: they are read at a normal priority from now on."""
        self.modules.hurry()

    def wait_idle(self, timeout_s: float) -> bool:
        """Wait until all addresses of added modules have final names, and all modules final notes.

        Returns:
            False after a timeout.
        """
        deadline = time.monotonic() + timeout_s
        if not self.modules.wait_idle(timeout_s):
            return False
        if not self._managed.wait_idle(deadline - time.monotonic()):
            return False
        return self._jit.wait_idle(deadline - time.monotonic())

    def sources(self) -> list[SymbolSource]:
        """Return the sources of names of each module that occurs in a stack."""
        return self.modules.sources() + self.own_sources()

    def own_sources(self) -> list[SymbolSource]:
        """Return the sources of names of what is in no file."""
        return self._managed.sources() + self._jit.sources()

    def work_on(self, module_id: int) -> ModuleWork | None:
        """Return the state of a module; None if it was not added."""
        return self.modules.work_on(module_id)

    @property
    def roots(self) -> tuple[Root, ...]:
        """Where a path of the target is valid: its root, if it is known."""
        return self.modules.roots

    def embedded_text(self, file: str) -> SourceText | None:
        """Return a source's text as a source map of the target has it; None if none has."""
        return self._managed.source_maps.text(file)

    def mapped_ns(self, file: str) -> int:
        """Return when the source map was written that names a source (Unix, ns); 0 if unknown."""
        return self._managed.source_maps.modified_ns(file)

    def close(self) -> None:
        """End the threads and close all files. Names that are missing then will not be found."""
        self._is_closed = True
        self._jit.close()
        self._managed.close()
        if self._has_own_modules:
            self.modules.close()
