"""Restore functions that left no frame because they ended in a tail call.

This runs in a thread of its own, after a module's lines were read. A process of its own reads the
call sites in the module's debug information (``tail_call_graph``). For a pair of frames, caller and
callee, they show which functions were entered between the two. The results go to the symbol table
by pair. They become frames when trees and stacks are built.

Only pairs within one module are examined, and only if the call instruction does not lead to the
called function itself. So the call sites of most modules are never read.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from ..model import Frame, FrameKind
from ..recording.names.table import SymbolTable
from .debuginfo.reader import DebugInfo
from .dwarf.tail_call_graph import CallGraph, TailCall
from .module_work import ModuleWork

Column = npt.NDArray[np.int64]
# Address ids of callers and callees, file_addrs of callers (return address - 1) and callees.
Pairs = tuple[Column, ...]
# Maximum size of the debug information in the file; a MB takes a fifth of a second to read.
MAX_DEBUG_INFO_BYTES = 64 << 20


@dataclass(eq=False)
class _Module:
    """The state of one module's calls. Guarded by the lock."""

    waiting: list[Pairs] = field(default_factory=list)
    work: ModuleWork | None = None  # set once its calls can be read
    graph: CallGraph | None = None
    has_none: bool = False

    @property
    def has_work(self) -> bool:
        return bool(self.waiting) and self.work is not None


class TailCalls:
    """Restores tail calls; see the module docstring.

    Args:
        table: receives the frames.
        changed: guards all state; notified of new and finished work. Callers of all methods but
            :meth:`run` and :meth:`close` hold it.
        debug_info: reads calls.
    """

    def __init__(
        self, table: SymbolTable, changed: threading.Condition, debug_info: DebugInfo
    ) -> None:
        self._table = table
        self._changed = changed
        self._debug_info = debug_info
        self._modules: dict[int, _Module] = {}
        self._closing = False

    def submit(self, module_id: Column, pairs: Pairs) -> None:
        """Request the functions that were entered between pairs of frames of the same module."""
        for number in np.unique(module_id).tolist():
            module = self._modules.setdefault(number, _Module())
            if not module.has_none:
                rows = module_id == number
                module.waiting.append(tuple(column[rows] for column in pairs))
                self._changed.notify_all()

    def can_be_read(self, work: ModuleWork) -> None:
        """Report that a module has all its lines, so its calls can be read."""
        if work.debug_cost() > MAX_DEBUG_INFO_BYTES:
            self.cannot_be_read(work)
            return
        self._modules.setdefault(work.module.module_id, _Module()).work = work
        self._changed.notify_all()

    def cannot_be_read(self, work: ModuleWork) -> None:
        """Report that a module has no call sites."""
        self._modules[work.module.module_id] = _Module(has_none=True)

    @property
    def is_idle(self) -> bool:
        """True if no pair is waiting whose calls can be read."""
        return not any(module.has_work for module in self._modules.values())

    def close(self) -> None:
        """End :meth:`run`, once the current read has finished."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()

    def run(self) -> None:
        """Process requests until :meth:`close`: the function of the thread."""
        while True:
            with self._changed:
                is_idle = self.is_idle
            if is_idle:
                self._debug_info.rest_calls()
            with self._changed:
                self._changed.wait_for(lambda: self._closing or not self.is_idle)
                if self._closing:
                    return
                module = next(m for m in self._modules.values() if m.has_work)
            try:
                self._do(module)
            except Exception:  # the file is damaged or was deleted: no frames are restored
                with self._changed:
                    module.waiting.clear()
                    module.work, module.has_none = None, True
                    self._changed.notify_all()

    def _do(self, module: _Module) -> None:
        work = module.work
        assert work is not None
        with self._changed:
            batch = list(module.waiting)
        columns = [np.concatenate(column) for column in zip(*batch, strict=True)]
        pairs = np.stack(columns, axis=1)[~work.are_called(columns[2], columns[3])]
        if len(pairs):
            self._restore(module, work, pairs)
        with self._changed:
            del module.waiting[: len(batch)]
            self._changed.notify_all()

    def _restore(self, module: _Module, work: ModuleWork, pairs: Column) -> None:
        assert work.image is not None
        if module.graph is None:
            module.graph = self._debug_info.read_calls(work.module, work.image)
        chains = module.graph.lost(pairs[:, 2], pairs[:, 3])
        found = [i for i, chain in enumerate(chains) if chain]
        distinct = list(dict.fromkeys(chains[i] for i in found))
        frames = dict(zip(distinct, _frames(distinct, work), strict=True))
        if found:
            self._table.set_lost(
                [(int(pairs[i, 0]), int(pairs[i, 1]), frames[chains[i]]) for i in found]
            )


def _frames(chains: list[tuple[TailCall, ...]], work: ModuleWork) -> list[list[Frame]]:
    """Return the frames of each chain, outermost first.

    The line of a tail call is that of its jump. If there are several jumps, the line is unknown.
    """
    calls = list(dict.fromkeys(call for chain in chains for call in chain))
    found = work.resolve([call.jump_addr or call.entry for call in calls])
    frames_of: dict[TailCall, list[Frame]] = {}
    for call, (outer, *inlined) in zip(calls, found, strict=True):
        function = replace(outer.function, kind=FrameKind.TAIL_CALL)
        if call.jump_addr:
            frames_of[call] = [Frame(function, outer.line, outer.other_file), *inlined]
        else:
            frames_of[call] = [Frame(function)]
    return [[frame for call in chain for frame in frames_of[call]] for chain in chains]
