"""One of several recordings that grow: what it has gained, with the numbers of the whole."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import count

import numpy as np
import numpy.typing as npt

from ...model import Module, Process, SymbolSource, Thread
from ...wire.decoder import MAX_NS
from ..names.frame_pool import NameMark
from ..names.given import Given
from ..names.table import SymbolTable
from ..numbers import module_key
from ..profile.gains import GainMark, Gains
from ..profile.interval_chunk import ROW_DTYPE, Rows
from ..profile.intervals import NewRows
from ..profile.lock_numbers import lock_numbers
from ..profile.stack_columns import FIRST, StackColumns
from ..profile.store import Profile
from ..recording import Recording
from .parts import Part
from .tables import in_modules, renumbered

MAX_MODULE_ID = 0xFFFF  # in 16 bits of an address
_LOCK_STEP = 1009  # processes of one part have their own, near each other


class Whole:
    """What several recordings become.

    Args:
        profile: of the whole.
        names: of the whole.
    """

    def __init__(self, profile: Profile, names: SymbolTable) -> None:
        self.profile, self.names = profile, names
        self.modules: dict[tuple[object, ...], int] = {}
        self.next_thread, self.next_process = count(1).__next__, count(0).__next__
        self._next_module = count(1).__next__
        self.open: dict[int, Rows] = {}  # of each part
        self.starts_ns: dict[int, int] = {}

    def next_module(self) -> int:
        """Return a number that no module has. Raises ValueError if there is none."""
        number = self._next_module()
        if number > MAX_MODULE_ID:
            raise ValueError("all together have more modules than fit into memory")
        return number


class GrowingPart:
    """See the module. One thread calls ``step``.

    Args:
        recording: it; nothing has been recorded yet.
        process: the one it begins with.
        shift_ns: what is added to its times.
        whole: what it becomes a part of.
        at: which of the parts it is.

    Attributes:
        recording: see above.
        damage: why nothing more of it is taken; "" while all is well.
        modules: its modules → those of the whole.
    """

    def __init__(
        self, recording: Recording, process: Process, shift_ns: int, whole: Whole, at: int
    ) -> None:
        self.recording, self.damage = recording, ""
        self._whole, self._at, self._shift_ns = whole, at, shift_ns
        self._mark, self._name_mark, self._revision = GainMark(), NameMark(), -1
        self._is_over = False
        self._nodes, self._stacks = _Numbers(FIRST.n_nodes), _Numbers(FIRST.n_stacks)
        self._addresses, self._cells = _Numbers(0), _Numbers(0)
        self.modules: dict[int, int] = {}
        self._threads: dict[int, int] = {0: 0}
        self._processes: dict[int, int] = {}
        self._given = Given()
        self._first = process
        recording.profile.keep_new()

    def part(self) -> Part:
        """Return what it says of itself."""
        recording = self.recording
        profile = recording.profile
        return Part(
            *("", 0, recording.meta, recording.status(), profile.start_ns, profile.now_ns),
            *({}, {}, {}, self._at, self._shift_ns, self._first.host),
        )

    def sources(self) -> Iterable[SymbolSource]:
        """Return the sources of the names of its modules."""
        for each in self.recording.status().symbols:
            if each.module_id in self.modules:
                yield replace(each, module_id=self.modules[each.module_id])

    def has(self, function_id: int) -> bool:
        """Tell whether a function of the whole occurs in it."""
        return function_id in self._given.functions

    def step(self) -> None:
        """Add to the whole what it has gained."""
        revision = self.recording.revision
        if self._is_over or self.damage or revision == self._revision:
            return
        self._revision = revision
        is_final = self.recording.status().is_final  # before the last of it is taken
        names, profile = self.recording.names, self.recording.profile
        named = names.gains(self._name_mark, profile.n_addresses)
        gains = profile.take_gains(self._mark)  # then all their addresses are there
        try:
            self._whole.profile.extend(self._numbered(gains, is_last=is_final))
            self._given.addresses = self._addresses.of_all
            if not named.is_empty:
                self._whole.names.extend(named, gains.mark.stacks.n_addresses, self._given)
        except (ValueError, OverflowError) as error:  # times, by what the other side says
            self.damage = str(error)
            return
        self._mark, self._name_mark = gains.mark, named.mark
        self._is_over = is_final

    def _numbered(self, gains: Gains, *, is_last: bool) -> Gains:
        whole, stacks, rows = self._whole, gains.stacks, gains.rows
        start_ns = gains.start_ns + self._shift_ns if gains.start_ns else 0
        if not 0 <= start_ns < MAX_NS:
            raise ValueError("it says an impossible time")
        mark = whole.profile.stacks_mark
        self._addresses.add(len(stacks.addresses), mark.n_addresses)
        self._nodes.add(len(stacks.parent), mark.n_nodes)
        self._stacks.add(len(stacks.node), mark.n_stacks)
        self._cells.add(len(rows.what), whole.profile.n_cells)
        processes = self._new_processes(gains.processes)
        modules = [self._module(each) for each in gains.modules]
        threads = [self._thread(each) for each in gains.threads]
        found = StackColumns(
            addresses=in_modules(stacks.addresses, self._module_number),
            parent=self._nodes.of(stacks.parent),
            address=self._addresses.of(stacks.address),
            depth=stacks.depth,
            node=self._nodes.of(stacks.node),
            verdict=stacks.verdict,
            managed=stacks.managed,
            marks=stacks.marks,
            fault=renumbered(stacks.fault, self._module_number),
        )
        stack = self._stacks.of(rows.what >> 19).astype(np.int64)
        ended, still_open = self._moved(rows.ended), self._moved(rows.open)
        now_ns = rows.now_ns + self._shift_ns if rows.now_ns else 0
        if is_last:
            lasted_ns = now_ns - still_open["t0_ns"]
            still_open["wall_ns"] = np.maximum(still_open["wall_ns"], lasted_ns)
            ended, still_open = np.concatenate((ended, still_open)), np.empty(0, ROW_DTYPE)
        whole.open[self._at] = still_open
        if start_ns:
            whole.starts_ns[self._at] = start_ns
        return Gains(
            found,
            NewRows(
                renumbered(rows.thread_id, self._thread_number),
                stack << 19 | rows.what & ((1 << 19) - 1),
                ended,
                np.concatenate(list(whole.open.values())),
                now_ns,
            ),
            threads,
            modules,
            [self._thread_number(each) for each in gains.hidden],
            min(whole.starts_ns.values(), default=0),
            GainMark(),
            processes,
        )

    def _moved(self, rows: Rows) -> Rows:
        moved: Rows = rows.copy()
        moved["t0_ns"] += self._shift_ns
        moved["cell"] = self._cells.of(rows["cell"])
        moved["holder_id"] = renumbered(rows["holder_id"], self._thread_number)
        for name in ("awaited_lock", "held_lock"):
            moved[name] = lock_numbers(rows[name], self._at * _LOCK_STEP)
        return moved

    def _new_processes(self, gained: Iterable[Process]) -> list[Process]:
        found = list(gained)
        if not self._processes and not any(each.number == 0 for each in found):
            found.insert(0, self._first)
        for each in found:
            if each.number not in self._processes:
                self._processes[each.number] = self._whole.next_process()
        return [self._process(each) for each in found]

    def _process(self, process: Process) -> Process:
        return replace(
            process,
            number=self._processes[process.number],
            parent=self._processes.get(process.parent, -1),
            host=process.host or self._first.host,
            first_seen_ns=self._time(process.first_seen_ns),
            ended_ns=self._time(process.ended_ns),
        )

    def _time(self, time_ns: int) -> int:
        return min(max(1, time_ns + self._shift_ns), MAX_NS - 1) if time_ns else 0

    def _thread(self, thread: Thread) -> Thread:
        if not thread.thread_id:
            return thread
        return replace(
            thread,
            thread_id=self._thread_number(thread.thread_id),
            process=self._processes.get(thread.process, 0),
            first_seen_ns=self._time(thread.first_seen_ns),
        )

    def _thread_number(self, number: int) -> int:
        if number not in self._threads:
            self._threads[number] = self._whole.next_thread()
        return self._threads[number]

    def _module(self, module: Module) -> Module:
        key, known = module_key(module, self._at), self._whole.modules
        number = self.modules.get(module.module_id) or known.get(key)
        if number is None:
            number = self._whole.next_module()
        known[key] = self.modules[module.module_id] = number
        return replace(module, module_id=number)

    def _module_number(self, number: int) -> int:
        if number and number not in self.modules:  # it found no room
            self.modules[number] = self._whole.next_module()
        return self.modules.get(number, 0)


class _Numbers:
    """What the numbers of rows of a part are in the whole; the first ones are those of all."""

    def __init__(self, n_common: int) -> None:
        self.of_all = np.arange(n_common, dtype=np.int32)

    def add(self, n: int, at: int) -> None:
        """Add rows that are behind ``at`` others."""
        if n:
            self.of_all = np.concatenate((self.of_all, np.arange(at, at + n, dtype=np.int32)))

    def of(self, numbers: npt.NDArray[np.integer]) -> npt.NDArray[np.int32]:
        """Return those of some rows."""
        found: npt.NDArray[np.int32] = self.of_all[numbers]
        return found
