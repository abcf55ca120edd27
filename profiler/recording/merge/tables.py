"""Number the threads, modules, stacks and sums of several recordings anew, as one.

Tables are appended, not joined: an address of one program says nothing of another's. Modules are
one if they are the same file by path and build-id, or of one process and at one place; threads are
one if they are of one process and have one tid.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from ...model import Module, Process, Thread
from ...wire.abi import (
    FRAME_KIND_EVAL,
    FRAME_KIND_MODULE,
    FRAME_KIND_SHIFT,
    FRAME_MODULE_SHIFT,
)
from ...wire.decoder import MAX_NS
from ..numbers import module_key
from ..profile.gains import GainMark, Gains
from ..profile.interval_chunk import ROW_DTYPE
from ..profile.intervals import NewRows
from ..profile.stack_columns import FIRST, StackColumns
from .parts import Part

Integer = TypeVar("Integer", bound=np.integer)

IN_CHUNK = 1 << 20  # rows of a table
_THREADS_IN_CHUNK = 1 << 14
_MODULE = 0xFFFF
_NO_ROWS = np.empty(0, ROW_DTYPE)
_NO_STACKS = StackColumns(
    addresses=np.empty(0, np.uint64),
    parent=np.empty(0, np.int32),
    address=np.empty(0, np.int32),
    depth=np.empty(0, np.int32),
    node=np.empty(0, np.int32),
    verdict=np.empty(0, np.uint8),
    managed=np.empty(0, np.uint8),
    marks=np.empty(0, np.uint8),
    fault=np.empty(0, np.int32),
)
_OF_NODES = "parent", "address", "depth"
_OF_STACKS = "node", "verdict", "managed", "marks", "fault"


class MergedTables:
    """The tables of several recordings; see the module docstring.

    Attributes:
        threads: of all, by their new ids.
        modules: of all, by their new ids.
        processes: of all, by their new numbers.
        n_addresses: of all so far.
    """

    def __init__(self) -> None:
        self.threads: dict[int, Thread] = {}
        self.modules: dict[int, Module] = {}
        self.processes: dict[int, Process] = {}
        self.n_addresses = FIRST.n_addresses
        self._n_nodes, self._n_stacks, self._n_cells = FIRST.n_nodes, FIRST.n_stacks, 0
        self._module_ids: dict[tuple[object, ...], int] = {}
        self._next_module = self._next_thread = 1
        self._first_seen: dict[int, tuple[Part, int]] = {}  # by the clock of that part
        self._alive: dict[tuple[int, int], int] = {}  # process and tid → thread
        self._process_ids: dict[tuple[object, ...], int] = {}
        self._process_parts: dict[int, tuple[Part, Process]] = {}

    def add(self, part: Part, gains: Gains) -> tuple[dict[int, int], Iterator[Gains]]:
        """Add the tables of a recording.

        Args:
            part: it, placed; what its threads and cells become is set.
            gains: all that it has, but for its intervals.

        Returns:
            The number of each of its modules in the whole, and what is added, in pieces.
        """
        module_ids = self._add_modules(part, gains.modules)
        self._add_threads(part)

        def module_id(number: int) -> int:
            if number and number not in module_ids:  # it found no room
                module_ids[number] = self._new_module()
            return module_ids.get(number, 0)

        stacks, rows = gains.stacks, gains.rows
        part.first_cell = self._n_cells
        is_hidden = np.isin(rows.thread_id, np.array(gains.hidden, np.uint32))
        part.hidden_cells = np.flatnonzero(is_hidden).tolist()
        found = StackColumns(
            addresses=in_modules(stacks.addresses, module_id),
            parent=_after(stacks.parent, FIRST.n_nodes, self._n_nodes),
            address=stacks.address + np.int32(self.n_addresses),
            depth=stacks.depth,
            node=_after(stacks.node, FIRST.n_nodes, self._n_nodes),
            verdict=stacks.verdict,
            managed=stacks.managed,
            marks=stacks.marks,
            fault=renumbered(stacks.fault, module_id),
        )
        thread_id = renumbered(rows.thread_id, lambda number: self.thread_id(part, number))
        stack = _after(rows.what >> 19, FIRST.n_stacks, self._n_stacks)
        what = stack << 19 | rows.what & ((1 << 19) - 1)
        self.n_addresses += len(found.addresses)
        self._n_nodes += len(found.parent)
        self._n_stacks += len(found.node)
        self._n_cells += len(what)
        return module_ids, _pieces(found, thread_id, what)

    def thread_id(self, part: Part, number: int) -> int:
        """Return the number of a thread of a part in the whole; 0, which stands for many, stays."""
        if number and number not in part.thread_ids:  # a hidden one, or it found no room
            part.thread_ids[number] = self._new_thread()
        return part.thread_ids.get(number, 0)

    def rosters(self) -> Iterator[Gains]:
        """Return processes, threads and modules, in pieces, once all parts have their places."""
        threads = []
        for number, each in self.threads.items():
            part, first_ns = self._first_seen.get(number, (None, 0))
            first_ns += part.shift_ns if part else 0
            threads.append(replace(each, first_seen_ns=min(max(0, first_ns), MAX_NS)))
        modules = list(self.modules.values())
        processes = [self._placed(each) for each in self.processes.values()]
        if len(processes) > 1:
            yield _gains(processes=processes)
        for at in range(0, max(len(threads), len(modules)), _THREADS_IN_CHUNK):
            until = at + _THREADS_IN_CHUNK
            yield _gains(threads=threads[at:until], modules=modules[at:until])

    def _placed(self, process: Process) -> Process:
        """Return a process with its times in the whole."""
        part, _ = self._process_parts[process.number]
        times = {
            name: min(max(0, getattr(process, name) + part.shift_ns), MAX_NS - 1)
            for name in ("first_seen_ns", "ended_ns")
            if getattr(process, name)
        }
        return replace(process, host=process.host or part.host, **times)

    def _add_modules(self, part: Part, modules: Iterable[Module]) -> dict[int, int]:
        found = {}
        for each in modules:
            key = module_key(each, part.process)
            number = self._module_ids.get(key)
            if number is None:
                number = self._module_ids[key] = self._new_module()
                self.modules[number] = replace(each, module_id=number)
            found[each.module_id] = number
        return found

    def _add_threads(self, part: Part) -> None:
        """Number the threads of a part; the earliest of a tid is the one that was alive before."""
        alive = {}
        processes = self._add_processes(part)
        in_order = sorted(part.threads.values(), key=lambda each: each.first_seen_ns)
        for each in in_order:
            if not each.thread_id:
                self.threads[0] = each
                continue
            key = part.process, each.tid
            known = self._alive.pop(key, None) if each.tid else None
            number = part.thread_ids[each.thread_id] = known or self._new_thread()
            process = processes.get(each.process, 0)
            self.threads[number] = replace(each, thread_id=number, process=process)
            self._first_seen.setdefault(number, (part, each.first_seen_ns))
            if each.tid and not each.exited:
                alive[key] = number
        self._alive |= alive

    def _add_processes(self, part: Part) -> dict[int, int]:
        """Return the number of each process of a part in the whole."""
        found = {}
        for each in part.processes.values():
            key = part.process, each.pid or each.number, each.program
            found[each.number] = self._process_ids.setdefault(key, len(self._process_ids))
            self._process_parts.setdefault(found[each.number], (part, each))
        for number in found.values():
            owner, each = self._process_parts[number]
            parent = found.get(each.parent, -1) if owner is part else -1
            before = self.processes.get(number)
            self.processes[number] = before or replace(each, number=number, parent=parent)
        return found

    def _new_module(self) -> int:
        self._next_module += 1
        return self._next_module - 1

    def _new_thread(self) -> int:
        self._next_thread += 1
        return self._next_thread - 1


def renumbered(numbers: npt.NDArray[Integer], number: Callable[[int], int]) -> npt.NDArray[Integer]:
    """Return other numbers in place of some."""
    different, at = np.unique(numbers, return_inverse=True)
    new = np.array([number(each) for each in different.tolist()], numbers.dtype)
    found: npt.NDArray[Integer] = new[at]
    return found


def rows_gains(rows: npt.NDArray[np.void], start_ns: int, now_ns: int) -> Gains:
    """Return intervals that have ended as what a recording has gained."""
    new = NewRows(np.empty(0, np.uint32), np.empty(0, np.int64), rows, _NO_ROWS, now_ns)
    return _gains(rows=new, start_ns=start_ns)


def _gains(
    stacks: StackColumns = _NO_STACKS,
    rows: NewRows | None = None,
    threads: Sequence[Thread] = (),
    modules: Sequence[Module] = (),
    start_ns: int = 0,
    processes: Sequence[Process] = (),
) -> Gains:
    none = NewRows(np.empty(0, np.uint32), np.empty(0, np.int64), _NO_ROWS, _NO_ROWS, 0)
    gains = Gains(stacks, rows or none, [*threads], [*modules], [], start_ns, GainMark())
    return gains._replace(processes=processes)


def _pieces(
    stacks: StackColumns, thread_id: npt.NDArray[np.uint32], what: npt.NDArray[np.int64]
) -> Iterator[Gains]:
    """Return tables in pieces that fit into chunks: what is pointed at first."""
    for names in (("addresses",), _OF_NODES, _OF_STACKS):
        columns = {name: getattr(stacks, name) for name in names}
        for at in range(0, len(columns[names[0]]), IN_CHUNK):
            part = {name: column[at : at + IN_CHUNK] for name, column in columns.items()}
            yield _gains(replace(_NO_STACKS, **part))
    for at in range(0, len(what), IN_CHUNK):
        until = at + IN_CHUNK
        yield _gains(rows=NewRows(thread_id[at:until], what[at:until], _NO_ROWS, _NO_ROWS, 0))


def _after(numbers: npt.NDArray[Integer], n_common: int, n: int) -> npt.NDArray[Integer]:
    """Return numbers of rows behind ``n`` others; the first ``n_common`` are those of all."""
    moved: npt.NDArray[Integer] = numbers.copy()
    moved[numbers >= n_common] += n - n_common
    return moved


def in_modules(
    addresses: npt.NDArray[np.uint64], module_id: Callable[[int], int]
) -> npt.NDArray[np.uint64]:
    """Return addresses, encoded as on the wire, with other numbers of modules."""
    kind = addresses >> np.uint64(FRAME_KIND_SHIFT)
    has_module = np.isin(kind, (FRAME_KIND_MODULE, FRAME_KIND_EVAL))
    shift = np.uint64(FRAME_MODULE_SHIFT)
    number = np.where(has_module, addresses >> shift & np.uint64(_MODULE), 0).astype(np.int64)
    new = renumbered(number, module_id).astype(np.uint64)
    without = addresses & ~np.uint64(_MODULE << FRAME_MODULE_SHIFT)
    return np.where(has_module, without | new << shift, addresses)
