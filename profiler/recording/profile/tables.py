"""Take what a recorder, or a file, adds to a recording in memory.

One writer at a time calls. Memory is bounded (``budget``); what finds no room is counted.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping

import numpy as np

from ...model import Clock, Process
from ...wire.decoder import MAX_NS, ProtocolError
from ...wire.events import Batch
from .budget import INTERVALS_BYTES, TABLES_BYTES, Budget
from .cell_keys import Cells
from .gains import GainMark, Gains, new_in
from .interval_chunk import MAX_SUM_NS, Rows
from .intervals import Intervals
from .moments import new_cells
from .roster import Records, Roster
from .stacks import STACK_FULL, Stacks
from .stored import StoredIntervals, StoredNodes
from .time_bins import STEP_NS

_MAX_EARLIER_NS = STEP_NS << 30  # 24 days


class Tables:
    """The tables of a recording, and what is added to them; see the module docstring.

    Args:
        on_change: called after ``revision`` has grown, without a lock held.
        tables_bytes: limit for stacks, sums, threads and modules.
        intervals_bytes: limit for single intervals.
    """

    def __init__(
        self,
        on_change: Callable[[], None] = lambda: None,
        *,
        tables_bytes: int = TABLES_BYTES,
        intervals_bytes: int = INTERVALS_BYTES,
    ) -> None:
        self._lock = threading.Lock()
        self._on_change = on_change
        # Apart, so that a flood of one kind leaves room for the others.
        self._stacks = Stacks(Budget(tables_bytes // 2))
        self._intervals = Intervals(Budget(tables_bytes // 4), intervals_bytes)
        self._roster = Roster(Budget(tables_bytes // 4))
        self._stacks_full = 0
        self._sum_ns = 0
        self._revision = 0
        self._start_ns = 0

    def add_process(self, process: Process) -> None:
        """Add a process, or replace what is known of it."""
        with self._lock:
            self._roster.add_process(process)
            self._revision += 1
        self._on_change()

    def end_process(self, process: Process) -> None:
        """End a process and its threads, at its ``ended_ns``, while others go on."""
        with self._lock:
            self._roster.add_process(process)
            self._intervals.close(self._roster.end_threads(process.number), process.ended_ns)
            self._revision += 1
        self._on_change()

    def apply(self, batch: Batch, process: int = 0) -> None:
        """Add one batch.

        Args:
            batch: it; its ids are those of the recording.
            process: the number of the process that it is from.

        Raises:
            ProtocolError: a trace id, or the sum of all times, is far too large.
        """
        has_changed = False
        with self._lock:
            for module in batch.modules:
                self._roster.add_module(module)
            exited, newly_hidden = self._roster.add_threads(batch.threads, process)
            for trace in batch.traces:
                self._stacks.add(trace)
            self._add_intervals(batch, process)
            if exited:
                self._intervals.close(exited)
            if newly_hidden:
                self._intervals.hide(newly_hidden)
            if batch.modules or batch.threads or len(batch.intervals) or self._intervals.has_open:
                self._revision += 1
                has_changed = True
        if has_changed:
            self._on_change()

    def set_thread_names(
        self, names: Mapping[int, str], defaults: frozenset[str], process: int = 0
    ) -> None:
        """Give threads the names by which the program itself knows them.

        Args:
            names: by tid.
            defaults: names that the kernel gives to all threads of the process: these say less.
            process: the number of the process.
        """
        with self._lock:
            has_changed = self._roster.set_names(names, defaults, process)
            self._revision += has_changed
        if has_changed:
            self._on_change()

    def _add_intervals(self, batch: Batch, process: int) -> None:
        records = self._roster.seat(batch.intervals, process)
        self._check_sum(records, batch.now_ns)
        if len(records):
            first_ns = int(records["t0_ns"].min())
            if not self._start_ns or first_ns < self._start_ns:
                self._start_ns = first_ns
        stacks = self._stacks.stacks_of(records["trace_id"])
        self._stacks_full += int(np.count_nonzero(stacks == STACK_FULL))
        self._intervals.add(records, stacks, batch.now_ns)

    def _check_sum(self, records: Records, now_ns: int) -> None:
        """Refuse times whose sum would not fit into 64 bits."""
        times = records["wall_ns"].sum(dtype=np.float64) + records["cpu_ns"].sum(dtype=np.float64)
        self._sum_ns += int(times)
        open_ns = self._intervals.n_open * (now_ns - self._start_ns)
        if self._sum_ns + open_ns > MAX_SUM_NS:
            raise ProtocolError("the times of its threads add up to more than 36 years")

    def keep_new(self) -> None:
        """From now on, keep what is added for ``take_gains``. Call it before the first batch."""
        self._intervals.keep_new()

    def forget_new(self) -> None:
        """Keep nothing for ``take_gains`` any more."""
        with self._lock:
            self._intervals.keep_new(is_wanted=False)

    def take_gains(self, since: GainMark) -> Gains:
        """Return what has been added after ``since``; each interval once."""
        with self._lock:
            roster = self._roster
            threads, modules = tuple(roster.threads.values()), tuple(roster.modules.values())
            processes = tuple(roster.processes.values())
            rows = self._intervals.take_new(since.n_cells)
            n_cells = since.n_cells + len(rows.what)
            return Gains(
                self._stacks.columns_since(since.stacks),
                rows,
                new_in(threads, since.threads),
                new_in(modules, since.modules),
                sorted(roster.hidden - since.hidden),
                self._start_ns,
                GainMark(
                    *(self._stacks.mark, n_cells, threads, modules),
                    *(frozenset(roster.hidden), processes),
                ),
                new_in(processes, since.processes),
            )

    def extend(self, gains: Gains, *, with_ended: bool = True) -> None:
        """Add what ``take_gains`` has returned, of another profile. No batch can be applied then.

        Args:
            gains: all that is checked.
            with_ended: False leaves out the intervals that have ended (``add_rows``, ``store``).

        Raises:
            ValueError: something in it makes no sense, or does not fit into memory.
        """
        with self._lock:
            self._stacks.extend(gains.stacks)
            self._roster.restore(gains.processes, gains.threads, gains.modules)
            self._check_gains(gains)
            self._intervals.extend(gains.rows, self._stacks.mark.n_stacks, with_ended=with_ended)
            self._roster.hide(gains.hidden)
            if gains.hidden:
                self._intervals.hide(gains.hidden)
            self._start_ns = gains.start_ns
            self._revision += 1
        self._on_change()

    def store(self, nodes: StoredNodes) -> None:
        """Add the intervals that stay in a file. No batch can be applied then.

        Raises:
            ValueError: something in it makes no sense.
            InputError: the file cannot be read.
        """
        stored = StoredIntervals(nodes, self._intervals.thread_of)
        with self._lock:
            # Bins are numbered from there on, in 32 bits; the start may become known later.
            if not 0 <= nodes.origin_ns - self._start_ns < _MAX_EARLIER_NS:
                raise ValueError("its sums begin at another time")
            self._intervals.store(stored)
            self._revision += 1
        self._on_change()

    def settle(self) -> None:
        """Make what was added by ``extend`` and ``store`` agree. To be called at the end.

        Threads that have intervals and no name are added, and what came of hidden threads after
        they were hidden is removed.

        Raises:
            ValueError: there are more threads than fit into memory.
        """
        with self._lock:
            self._intervals.hide(())
            for clock in (Clock.WALL, Clock.CPU):
                self._roster.meet(np.unique(self._intervals.totals(clock).thread_id).tolist())

    @property
    def n_cells(self) -> int:
        """The number of cells."""
        return self._intervals.n_cells

    def add_rows(self, rows: Rows) -> None:
        """Add intervals that ``take_gains`` has returned, of cells that are there.

        Raises:
            ValueError: one makes no sense.
        """
        with self._lock:
            self._intervals.add_rows(rows)
            self._revision += 1
        self._on_change()

    def cells_since(self, first_cell: int) -> Cells:
        """Return the columns of the cells from one on."""
        with self._lock:
            return new_cells(self._intervals, self._stacks, first_cell)

    def _check_gains(self, gains: Gains) -> None:
        rows = gains.rows
        ended_ns, open_ns = (
            int(sum(each[name].sum(dtype=np.float64) for name in ("wall_ns", "cpu_ns")))
            for each in (rows.ended, rows.open)
        )
        self._sum_ns += ended_ns
        first_ns = min(
            (int(each["t0_ns"].min()) for each in rows[2:4] if len(each)), default=MAX_NS
        )
        if not 0 <= gains.start_ns <= min(first_ns, MAX_NS):
            raise ValueError("an interval is before the start")
        open_ns += len(rows.open) * max(0, rows.now_ns - gains.start_ns)
        if self._sum_ns + open_ns > MAX_SUM_NS:
            raise ValueError("its times add up to more than 36 years")
