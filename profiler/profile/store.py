"""Store a recording in memory, and answer queries about it.

One writer calls :meth:`Profile.apply`. Any number of threads may query; each query holds the one
lock for milliseconds. Weights are integers, nanoseconds:

==========  =======================================================================================
cpu         CPU time that the thread used
wall        elapsed time
off-cpu     elapsed time asleep, or waiting for a CPU
==========  =======================================================================================
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ..linux.syscalls import QUEUED, syscall_name
from ..model import Clock, Module, RawFrame, Thread, ThreadInfo, ThreadState, Verdict
from ..wire.decoder import Batch, raw_frames
from .intervals import CellWeights, Intervals
from .stacks import ROOT, UNATTRIBUTED, Mark, News, Stacks, Trie
from .totals import weigh

BEGINNING = Mark()


@dataclass(frozen=True)
class LeafWeights:
    """Weights by leaf, in columns; the same leaf may have several rows.

    A leaf is a node of the trie and, for a thread that waits in a system call, the number of that
    call.
    """

    thread_id: npt.NDArray[np.uint32]
    node: npt.NDArray[np.int32]
    sysno: npt.NDArray[np.int16]  # -1 for none; for the CPU clock always -1
    weight: npt.NDArray[np.int64]  # nanoseconds, or samples

    @property
    def total(self) -> int:
        """The sum of all weights."""
        return int(self.weight.sum())


class Profile:
    """A recording in memory; see the module docstring.

    Args:
        on_change: called after ``revision`` has grown, without a lock held.
    """

    def __init__(self, on_change: Callable[[], None] = lambda: None) -> None:
        self._lock = threading.Lock()
        self._on_change = on_change
        self._stacks = Stacks()
        self._intervals = Intervals()
        self._threads: dict[int, Thread] = {}
        self._hidden: set[int] = set()
        self._modules: dict[int, Module] = {}
        self._revision = 0
        self._start_ns = 0

    # ---- writing

    def apply(self, batch: Batch) -> None:
        """Add one batch.

        Raises:
            ProtocolError: a trace id is far too large.
        """
        has_changed = False
        with self._lock:
            for module in batch.modules:
                self._modules[module.module.module_id] = module.module
            newly_hidden: set[int] = set()
            exited: set[int] = set()
            for update in batch.threads:
                if update.hidden:
                    newly_hidden.add(update.thread_id)
                    continue
                self._threads[update.thread_id] = Thread(
                    update.thread_id,
                    update.tid,
                    update.name,
                    update.first_seen_ns,
                    update.exited,
                    update.signals_blocked,
                )
                if update.exited:
                    exited.add(update.thread_id)
            for trace in batch.traces:
                self._stacks.add(trace)
            self._hidden |= newly_hidden
            self._add_intervals(batch)
            if exited:
                self._intervals.close(exited)
            if newly_hidden:
                self._intervals.hide(newly_hidden)
                for thread_id in newly_hidden:
                    self._threads.pop(thread_id, None)
            if batch.modules or batch.threads or len(batch.intervals) or self._intervals.has_open:
                self._revision += 1
                has_changed = True
        if has_changed:
            self._on_change()

    def _add_intervals(self, batch: Batch) -> None:
        records = batch.intervals
        if self._hidden and len(records):
            hidden = np.fromiter(self._hidden, np.uint32)
            records = records[~np.isin(records["thread_id"], hidden)]
        if len(records):
            for thread_id in np.unique(records["thread_id"]).tolist():
                # The record with the thread's name was dropped; the next batch repeats it.
                self._threads.setdefault(thread_id, Thread(thread_id, 0, "?"))
            first_ns = int(records["t0_ns"].min())
            if not self._start_ns or first_ns < self._start_ns:
                self._start_ns = first_ns
        stacks = self._stacks.stacks_of(records["trace_id"])
        self._intervals.add(records, stacks, batch.now_ns)

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
            return dict(self._threads)

    @property
    def modules(self) -> dict[int, Module]:
        """All modules by ``module_id``, including unmapped ones; a copy."""
        with self._lock:
            return dict(self._modules)

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

    def locate(self, address_id: int) -> tuple[RawFrame, str]:
        """Return the frame of an address id, and the name of its module ("" outside any).

        Takes no lock, because the symbol table calls this while it holds its own. That is safe:
        addresses are only appended, and a dict look-up is atomic.
        """
        frame = self._stacks.raw_frame(address_id)
        module = self._modules.get(frame.module_id)
        return frame, module.name if module else ""

    def trie(self) -> Trie:
        """Return all stacks as one trie; a copy."""
        with self._lock:
            return self._stacks.trie()

    # ---- weights

    def leaf_weights(
        self,
        clock: Clock,
        thread_ids: frozenset[int] | None = None,
        t0_ns: int | None = None,
        t1_ns: int | None = None,
    ) -> LeafWeights:
        """Return the weight of each leaf, in nanoseconds.

        Args:
            clock: the clock of the weights.
            thread_ids: only these threads; None for all.
            t0_ns: start of the time range, CLOCK_MONOTONIC of the target; None for the beginning.
                An interval that is only partly inside counts pro rata.
            t1_ns: end of the time range; None for the end.
        """
        with self._lock:
            if t0_ns is None and t1_ns is None:
                cells = self._intervals.totals(clock)
            else:
                cells = self._intervals.span(
                    clock, t0_ns or 0, self.now_ns + 1 if t1_ns is None else t1_ns
                )
            return self._leaves(clock, cells, thread_ids)

    def leaf_samples(self, clock: Clock, thread_ids: frozenset[int] | None = None) -> LeafWeights:
        """Return the number of stacks taken at each leaf.

        The CPU clock counts those of running threads, off-CPU the others, wall all.
        """
        with self._lock:
            return self._leaves(clock, self._intervals.samples(clock), thread_ids)

    def _leaves(
        self, clock: Clock, cells: CellWeights, thread_ids: frozenset[int] | None
    ) -> LeafWeights:
        node, sysno = _leaf(
            clock, self._stacks.stack_nodes()[cells.stack], cells.state, cells.sysno
        )
        leaves = LeafWeights(cells.thread_id, node, sysno, cells.weight)
        if thread_ids is None:
            return leaves
        wanted = np.isin(cells.thread_id, np.fromiter(thread_ids, np.uint32))
        return LeafWeights(
            cells.thread_id[wanted], node[wanted], sysno[wanted], cells.weight[wanted]
        )

    def timelines(self, clock: Clock) -> Callable[[int], Iterator[LeafWeights]]:
        """Take a snapshot of the intervals, to list each thread's leaves in order of time.

        Returns:
            A function of a ``thread_id`` that yields the thread's leaves in order of time, in
            blocks. Adjacent rows of the same leaf are joined, rows without weight omitted; the sum
            equals the thread's total. Any thread may call it, any number of times.
        """
        with self._lock:
            chunks = self._intervals.snapshot()
            stack, state, sysno = self._intervals.cell_columns()
            node = self._stacks.stack_nodes()[stack]
        node, waits = _leaf(clock, node, state, sysno)

        def leaves(thread_id: int) -> Iterator[LeafWeights]:
            for chunk in chunks:
                block = chunk.read(thread_id)
                weight = weigh(clock, state[block.cell], block.wall_ns, block.cpu_ns)
                some = weight > 0
                cell, weight = block.cell[some], weight[some]
                if not len(cell):
                    continue
                nodes, sysnos = node[cell], waits[cell]
                is_new = np.ones(len(cell), bool)
                is_new[1:] = (nodes[1:] != nodes[:-1]) | (sysnos[1:] != sysnos[:-1])
                first = np.flatnonzero(is_new)
                yield LeafWeights(
                    np.full(len(first), thread_id, np.uint32),
                    nodes[first],
                    sysnos[first],
                    np.add.reduceat(weight, first),
                )

        return leaves

    def thread_infos(self) -> list[ThreadInfo]:
        """Return all threads with their weights and current system calls, first seen first."""
        with self._lock:
            totals = {clock: self._thread_totals(clock) for clock in Clock}
            waits = self._intervals.open_waits()
            return [
                ThreadInfo(
                    thread_id=thread.thread_id,
                    tid=thread.tid,
                    name=thread.name,
                    cpu_ns=totals[Clock.CPU].get(thread.thread_id, 0),
                    wall_ns=totals[Clock.WALL].get(thread.thread_id, 0),
                    off_cpu_ns=totals[Clock.OFF_CPU].get(thread.thread_id, 0),
                    exited=thread.exited,
                    waits_in=(
                        syscall_name(waits[thread.thread_id]) if thread.thread_id in waits else ""
                    ),
                    signals_blocked=thread.signals_blocked,
                )
                for thread in self._threads.values()
            ]

    def _thread_totals(self, clock: Clock) -> Mapping[int, int]:
        cells = self._intervals.totals(clock)
        sums = np.zeros(int(cells.thread_id.max(initial=0)) + 1, np.int64)
        np.add.at(sums, cells.thread_id, cells.weight)
        return dict(enumerate(sums.tolist()))

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

    # ---- verdicts

    def verdict_cpu_ns(self) -> dict[str, int]:
        """Return the CPU weight of the stacks with each verdict, by its name; only if not 0."""
        with self._lock:
            cells = self._intervals.totals(Clock.CPU)
            verdicts = self._stacks.stack_verdicts()[cells.stack]
            sums = np.zeros(len(Verdict), np.int64)
            np.add.at(sums, verdicts, cells.weight)
        return {Verdict(i).name: weight for i, weight in enumerate(sums.tolist()) if weight}

    def verdict_modules(self) -> dict[str, int]:
        """Return the CPU weight of truncated stacks by the module in which unwinding stopped.

        Heaviest first; "" is code outside any file. Stacks that are only too deep are not included:
        no module is at fault.
        """
        sums: dict[str, int] = {}
        with self._lock:
            cells = self._intervals.totals(Clock.CPU)
            verdicts = self._stacks.stack_verdicts()[cells.stack]
            blames = np.isin(
                verdicts,
                (Verdict.NO_UNWIND_INFO, Verdict.BAD_MEMORY, Verdict.UNSUPPORTED_RULE),
            )
            faults = self._stacks.stack_faults()[cells.stack]
            for fault in np.unique(faults[blames]).tolist():
                module = self._modules.get(fault)
                name = module.name if module else ""
                weight = int(cells.weight[blames & (faults == fault)].sum())
                sums[name] = sums.get(name, 0) + weight
        return dict(sorted(sums.items(), key=lambda item: -item[1]))


def _leaf(
    clock: Clock,
    node: npt.NDArray[np.int32],
    state: npt.NDArray[np.uint8],
    sysno: npt.NDArray[np.int16],
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int16]]:
    """Return the columns node and system call of leaves.

    A thread that waits for a CPU, and has no stack yet, waits at the root.
    """
    if clock is Clock.CPU:
        return node, np.full(len(sysno), -1, np.int16)
    waits = np.where(state == ThreadState.PARKED, sysno, np.int16(-1))
    is_queued = state == ThreadState.QUEUED
    node = np.where(is_queued & (node == UNATTRIBUTED), np.int32(ROOT), node)
    return node, np.where(is_queued, np.int16(QUEUED), waits)
