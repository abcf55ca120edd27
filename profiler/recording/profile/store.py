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

import numpy as np
import numpy.typing as npt

from ...model import (
    Clock,
    LockState,
    Module,
    Process,
    RawFrame,
    Thread,
    ThreadInfo,
)
from ...wire.events import are_eval, raw_frames
from .cell_times import CellTimes, take_cell_times
from .leaves import LeafWeights, leaf_of
from .lock_intervals import LockIntervals, take_lock_intervals
from .lock_states import Collections, are_holding, collections, lock_times
from .moments import Moments, take_moments
from .stack_columns import Mark
from .stacks import STACK_FULL, News, Trie
from .tables import Tables
from .thread_infos import thread_infos
from .timelines import Timelines
from .totals import CellWeights
from .verdicts import VerdictSums, verdict_sums

BEGINNING = Mark()


class Profile(Tables):
    """A recording in memory; see the module docstring, and ``Tables`` for its arguments."""

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
    def processes(self) -> dict[int, Process]:
        """All processes by ``number``; empty if nothing is known of the only one; a copy."""
        with self._lock:
            return dict(self._roster.processes)

    @property
    def threads(self) -> dict[int, Thread]:
        """All threads by ``thread_id``, without hidden ones; a copy. Of several processes, with
        titles: ``Roster.titled``.
        """
        with self._lock:
            return self._roster.titled()

    @property
    def process_titles(self) -> dict[int, str]:
        """What tells each process from all others, by ``number``: "gunicorn 812"."""
        with self._lock:
            return self._roster.titles()

    @property
    def plain_threads(self) -> dict[int, Thread]:
        """The same by the names that they have in their processes."""
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

    @property
    def stacks_mark(self) -> Mark:
        """The position behind all stacks that there are now; see ``news``."""
        return self._stacks.mark

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

    def cell_times(self, t0_ns: int | None = None, t1_ns: int | None = None) -> CellTimes:
        """Return the times of each thread and stack by all clocks, and what the thread did then.

        Args:
            t0_ns: start of the time range, as for ``leaf_weights``; None for the beginning.
            t1_ns: end of the time range; None for the end.
        """
        between_ns = None
        if t0_ns is not None or t1_ns is not None:
            between_ns = t0_ns or 0, self.now_ns + 1 if t1_ns is None else t1_ns
        with self._lock:
            return take_cell_times(self._intervals, self._stacks, between_ns)

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
            return thread_infos(self._roster.titled(), self._intervals, self._stacks, between_ns)

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
            threads = self._roster.threads
            return take_lock_intervals(self._intervals, self._stacks, threads, t0_ns, t1_ns)

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
