"""Store a recording in memory, and answer queries about it.

One writer calls :meth:`Profile.apply`. Any number of threads may query; each query holds the one
lock for milliseconds. Weights are integers, nanoseconds:

==========  =======================================================================================
cpu         CPU time that the thread used
wall        elapsed time
off-cpu     elapsed time asleep, or waiting for a CPU
==========  =======================================================================================

Memory is bounded (``budget``). What finds no room is counted (:meth:`Profile.losses`), and its time
shows below ``[stack table full]`` or in the thread ``[more threads]``, so that sums stay true.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping

import numpy as np
import numpy.typing as npt

from ...model import (
    Clock,
    LockState,
    Module,
    RawFrame,
    Thread,
    ThreadInfo,
)
from ...wire.decoder import MAX_NS, ProtocolError
from ...wire.events import Batch, are_eval, raw_frames
from .budget import INTERVALS_BYTES, TABLES_BYTES, Budget
from .cell_keys import Cells
from .gains import GainMark, Gains
from .interval_chunk import Rows
from .intervals import CellWeights, Intervals
from .leaves import LeafWeights, leaf_of
from .lock_intervals import LockIntervals, take_lock_intervals
from .lock_states import Collections, are_holding, collections, lock_times
from .moments import Moments, new_cells, take_moments
from .roster import Records, Roster
from .stack_columns import Mark
from .stacks import STACK_FULL, News, Stacks, Trie
from .stored import StoredIntervals, StoredNodes
from .thread_infos import thread_infos
from .timelines import Timelines
from .verdicts import VerdictSums, verdict_sums

BEGINNING = Mark()
# 36 years: sums of weights fit into 64 bits.
_MAX_SUM_NS = 1 << 60


class Profile:
    """A recording in memory; see the module docstring.

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

    # ---- writing

    def apply(self, batch: Batch) -> None:
        """Add one batch.

        Raises:
            ProtocolError: a trace id, or the sum of all times, is far too large.
        """
        has_changed = False
        with self._lock:
            for module in batch.modules:
                self._roster.add_module(module)
            exited, newly_hidden = self._roster.add_threads(batch.threads)
            for trace in batch.traces:
                self._stacks.add(trace)
            self._add_intervals(batch)
            if exited:
                self._intervals.close(exited)
            if newly_hidden:
                self._intervals.hide(newly_hidden)
            if batch.modules or batch.threads or len(batch.intervals) or self._intervals.has_open:
                self._revision += 1
                has_changed = True
        if has_changed:
            self._on_change()

    def set_thread_names(self, names: Mapping[int, str], defaults: frozenset[str]) -> None:
        """Give threads the names by which the program itself knows them.

        Args:
            names: by tid.
            defaults: names that the kernel gives to all threads of the process: these say less.
        """
        with self._lock:
            has_changed = self._roster.set_names(names, defaults)
            self._revision += has_changed
        if has_changed:
            self._on_change()

    def _add_intervals(self, batch: Batch) -> None:
        records = self._roster.seat(batch.intervals)
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
        if self._sum_ns + open_ns > _MAX_SUM_NS:
            raise ProtocolError("the times of its threads add up to more than 36 years")

    # ---- what a file keeps

    def keep_new(self) -> None:
        """From now on, keep what is added for ``take_gains``. Call it before the first batch."""
        self._intervals.keep_new()

    def take_gains(self, since: GainMark) -> Gains:
        """Return what has been added after ``since``; each interval once."""
        with self._lock:
            roster = self._roster
            threads, modules = tuple(roster.threads.values()), tuple(roster.modules.values())
            rows = self._intervals.take_new(since.n_cells)
            n_cells = since.n_cells + len(rows.what)
            return Gains(
                self._stacks.columns_since(since.stacks),
                rows,
                sorted({*threads} - {*since.threads}, key=lambda each: each.thread_id),
                sorted({*modules} - {*since.modules}, key=lambda each: each.module_id),
                sorted(roster.hidden - since.hidden),
                self._start_ns,
                GainMark(self._stacks.mark, n_cells, threads, modules, frozenset(roster.hidden)),
            )

    def extend(self, gains: Gains) -> None:
        """Add what ``take_gains`` has returned, of another profile. No batch can be applied then.

        Raises:
            ValueError: something in it makes no sense, or does not fit into memory.
        """
        with self._lock:
            self._stacks.extend(gains.stacks)
            self._roster.restore(gains.threads, gains.modules)
            self._check_gains(gains)
            self._intervals.extend(gains.rows, self._stacks.mark.n_stacks)
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
            self._intervals.store(stored)
            cells = self._intervals.totals(Clock.WALL).weight.sum(dtype=np.float64)
            if not 0 <= cells <= _MAX_SUM_NS:
                raise ValueError("its times add up to more than 36 years")
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
        if self._sum_ns + open_ns > _MAX_SUM_NS:
            raise ValueError("its times add up to more than 36 years")

    # ---- contents

    @property
    def revision(self) -> int:
        """A number that grows with each change."""
        return self._revision

    @property
    def start_ns(self) -> int:
        """Start of the first interval, CLOCK_MONOTONIC of the target; 0 if there is none."""
        return self._start_ns

    @property
    def now_ns(self) -> int:
        """Time of the last batch, CLOCK_MONOTONIC of the target."""
        return self._intervals.now_ns

    @property
    def duration_ns(self) -> int:
        """Time from the first interval to the last batch, nanoseconds."""
        return max(0, self.now_ns - self._start_ns) if self._start_ns else 0

    @property
    def threads(self) -> dict[int, Thread]:
        """All threads by ``thread_id``, without hidden ones; a copy."""
        with self._lock:
            return dict(self._roster.threads)

    @property
    def modules(self) -> dict[int, Module]:
        """All modules by ``module_id``, including unmapped ones; a copy."""
        with self._lock:
            return dict(self._roster.modules)

    def has_module(self, module_id: int) -> bool:
        """Return True if a module is kept; False if it found no room."""
        return module_id in self._roster.modules

    def losses(self) -> dict[str, int]:
        """Return what found no room, by the name of its counter (``wire.counters``).

        ``unattributed_full_ns`` is the CPU time of stacks without room, nanoseconds.
        """
        with self._lock:
            cells = self._intervals.totals(Clock.CPU)
            return {
                "unattributed_full_ns": int(cells.weight[cells.stack == STACK_FULL].sum()),
                "stacks_full": self._stacks_full + self._intervals.refused,
                "threads_full": self._roster.threads_full,
                "modules_full": self._roster.modules_full,
                "intervals_merged": self._intervals.merged,
            }

    @property
    def settled(self) -> tuple[int, int]:
        """The numbers of chunks packed so far and of hidden threads; grow when chunks change."""
        with self._lock:
            return self._intervals.n_packed, len(self._roster.hidden)

    @property
    def n_addresses(self) -> int:
        """The number of distinct addresses; their ids are 0 … n - 1."""
        return self._stacks.n_addresses

    def news(self, since: Mark = BEGINNING) -> News:
        """Return the addresses, calls and leaves that were added after ``since``.

        Args:
            since: the mark of the previous call; by default return all.
        """
        with self._lock:
            return self._stacks.news(since)

    def addresses(self) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.uint64]]:
        """Return module ids (0 outside any) and addresses of all address ids; see ``RawFrame``."""
        with self._lock:
            encoded = self._stacks.encoded_addresses()
        return raw_frames(encoded)

    def eval_addresses(self) -> npt.NDArray[np.bool_]:
        """Return for each address id whether it is the loop of an interpreter.

        Such a frame runs the interpreted frames that are its callers in the stack.
        """
        with self._lock:
            encoded = self._stacks.encoded_addresses()
        return are_eval(encoded)

    @property
    def has_managed(self) -> bool:
        """True if a stack has functions of an interpreted program."""
        with self._lock:
            return self._stacks.has_managed

    @property
    def has_lock(self) -> bool:
        """True if a thread held an interpreter's lock, or waited for it."""
        with self._lock:
            return self._stacks.has_lock

    def locate(self, address_id: int) -> tuple[RawFrame, str]:
        """Return the frame of an address id, and the name of its module ("" outside any).

        Takes no lock, because the symbol table calls this while it holds its own. That is safe:
        addresses are only appended, and a dict look-up is atomic.
        """
        frame = self._stacks.raw_frame(address_id)
        module = self._roster.modules.get(frame.module_id)
        return frame, module.name if module else ""

    def trie(self) -> Trie:
        """Return all stacks as one trie; a copy."""
        with self._lock:
            return self._stacks.trie()

    def collections(self) -> Collections:
        """Return which stacks are of threads that collect garbage."""
        with self._lock:
            return collections(self._stacks.stack_nodes(), self._stacks.stack_marks())

    # ---- weights

    def leaf_weights(
        self,
        clock: Clock,
        thread_ids: frozenset[int] | None = None,
        t0_ns: int | None = None,
        t1_ns: int | None = None,
        *,
        holding: bool = False,
    ) -> LeafWeights:
        """Return the weight of each leaf, in nanoseconds.

        Args:
            clock: the clock of the weights.
            thread_ids: only these threads; None for all.
            t0_ns: start of the time range, CLOCK_MONOTONIC of the target; None for the beginning.
                An interval that is only partly inside counts pro rata.
            t1_ns: end of the time range; None for the end.
            holding: only while the thread holds an interpreter's lock.
        """
        with self._lock:
            if t0_ns is None and t1_ns is None:
                cells = self._intervals.totals(clock)
            else:
                cells = self._intervals.span(
                    clock, t0_ns or 0, self.now_ns + 1 if t1_ns is None else t1_ns
                )
            return self._leaves(clock, cells, thread_ids, holding)

    def leaf_samples(
        self, clock: Clock, thread_ids: frozenset[int] | None = None, *, holding: bool = False
    ) -> LeafWeights:
        """Return the number of stacks taken at each leaf; arguments as for ``leaf_weights``.

        The CPU clock counts those of running threads, off-CPU the others, wall all.
        """
        with self._lock:
            return self._leaves(clock, self._intervals.samples(clock), thread_ids, holding)

    def _leaves(
        self, clock: Clock, cells: CellWeights, thread_ids: frozenset[int] | None, holding: bool
    ) -> LeafWeights:
        node, sysno = leaf_of(
            clock, self._stacks.stack_nodes()[cells.stack], cells.state, cells.sysno
        )
        leaves = LeafWeights(cells.thread_id, node, sysno, cells.weight)
        wanted = np.ones(len(node), bool)
        if thread_ids is not None:
            wanted = np.isin(cells.thread_id, np.fromiter(thread_ids, np.uint32))
        if holding:
            marks = self._stacks.stack_marks()[cells.stack]
            wanted &= are_holding(marks, cells.state, cells.sysno)
        return leaves.where(wanted)

    def timelines(
        self,
        clock: Clock,
        t0_ns: int | None = None,
        t1_ns: int | None = None,
        *,
        holding: bool = False,
    ) -> Timelines:
        """Take a snapshot of the intervals, to list each thread's leaves in order of time.

        Args:
            clock: the clock of the weights.
            t0_ns: start of the time range, as for ``leaf_weights``; None for the beginning.
            t1_ns: end of the time range; None for the end.
            holding: only while the thread holds an interpreter's lock.

        Returns:
            A function of a ``thread_id``; see ``Timelines``. Any thread may call it, at any time.
        """
        between_ns = None
        if t0_ns is not None or t1_ns is not None:
            between_ns = t0_ns or 0, self.now_ns + 1 if t1_ns is None else t1_ns
        with self._lock:
            chunks = self._intervals.snapshot(between_ns)
            _, stack, state, sysno = self._intervals.cell_columns()
            node = self._stacks.stack_nodes()[stack]
            marks = self._stacks.stack_marks()[stack]
        node, waits = leaf_of(clock, node, state, sysno)
        counts = are_holding(marks, state, sysno) if holding else np.ones(len(node), bool)
        return Timelines(chunks, clock, state, node, waits, counts, between_ns)

    def moments(self, first_cell: int = 0) -> Moments:
        """Take a snapshot of the intervals, for sums by time.

        Args:
            first_cell: the snapshot has the columns of the cells from this one on.
        """
        with self._lock:
            return take_moments(
                self._intervals, self._stacks, self._roster, self._start_ns, first_cell
            )

    def thread_infos(self, between_ns: tuple[int, int] | None = None) -> list[ThreadInfo]:
        """Return all threads with their weights and current system calls, first seen first.

        Args:
            between_ns: only the weights between two times, CLOCK_MONOTONIC of the target.
        """
        with self._lock:
            return thread_infos(self._roster.threads, self._intervals, self._stacks, between_ns)

    def lock_times(self, clock: Clock) -> dict[LockState, dict[int, int]]:
        """Return each thread's time by what it did with the interpreter's lock; no ``NONE``."""
        with self._lock:
            return lock_times(self._intervals.totals(clock), self._stacks.stack_marks())

    def lock_intervals(self, t0_ns: int | None = None, t1_ns: int | None = None) -> LockIntervals:
        """Take a snapshot of the intervals, for who holds locks and who awaits them.

        Those that are too old to be kept one by one are not included.

        Args:
            t0_ns: only what lies after this time, CLOCK_MONOTONIC of the target; None for all.
            t1_ns: only what lies before this time; None for all.
        """
        with self._lock:
            return take_lock_intervals(self._intervals, self._stacks, t0_ns, t1_ns)

    def total_ns(self, clock: Clock) -> int:
        """Return the total weight by a clock, in nanoseconds."""
        with self._lock:
            return int(self._intervals.totals(clock).weight.sum())

    @property
    def samples(self) -> int:
        """The number of stacks taken, by signal and by procfs."""
        with self._lock:
            return int(self._intervals.samples(Clock.WALL).weight.sum())

    @property
    def cpu_samples(self) -> int:
        """The number of stacks taken of running threads."""
        with self._lock:
            return int(self._intervals.samples(Clock.CPU).weight.sum())

    def verdicts(self) -> VerdictSums:
        """Return the CPU weight by the verdicts on its stacks."""
        with self._lock:
            cells = self._intervals.totals(Clock.CPU)
            return verdict_sums(self._stacks, self._roster.modules, cells)
