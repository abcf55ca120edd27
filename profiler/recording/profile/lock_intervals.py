"""Weigh the intervals that held an interpreter's lock by how long other threads awaited it. Pure.

An interval is placed by the agent: what a thread ran since its last sample is one piece before the
next. So moments are known to a few samples' time; sums over many intervals are what counts. An
interval that held the lock is compared with the waits of other threads, never with its own
thread's.

Memory is bounded: the sum of all waits up to a time is kept at the edges of a grid, and intervals
are read a chunk at a time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ...model import LockState, Thread
from .interval_chunk import AnyChunk, Block, cut
from .intervals import Intervals
from .lock_states import lock_states
from .stacks import Stacks

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

GRID_STEPS = 1 << 17
MIN_STEP_NS = 100_000  # finer than intervals are placed
MAX_READ = 64  # chunks: as many as are in memory


@dataclass(frozen=True, eq=False)
class LockIntervals:
    """A snapshot of the intervals, and the columns of their cells. Any thread may call.

    Attributes:
        chunks: the intervals that have their moments; of a range, those that touch it.
        thread_id: of each cell.
        node: the leaf of each cell's stack in the trie.
        state: the ``ThreadState`` of each cell.
        lock: the ``LockState`` of each cell.
        between_ns: only the parts of the intervals between these two times; None for all.
        process: of each cell; None if all are of one. Each has locks of its own.
    """

    chunks: Sequence[AnyChunk]
    thread_id: npt.NDArray[np.uint32]
    node: npt.NDArray[np.int32]
    state: npt.NDArray[np.uint8]
    lock: npt.NDArray[np.uint8]
    between_ns: tuple[int, int] | None = None
    process: npt.NDArray[np.int32] | None = None

    @property
    def awaited(self) -> Bools:
        """Which cells are waits for the lock."""
        waits: Bools = self.lock == LockState.AWAITED
        return waits

    def held_meanwhile(self, waits: Bools) -> tuple[int, Floats]:
        """Return the sum of some waits, and for each cell how long it held the lock in them.

        A moment in which two threads wait counts twice.

        Args:
            waits: the cells of the waits.

        Returns:
            The sum in nanoseconds, and the weight of each cell: float64, nanoseconds.
        """
        holds = self.lock == LockState.HELD
        if self.process is None:
            return self._held_meanwhile(waits, holds)
        total_ns, meanwhile = 0, np.zeros(len(self.lock), np.float64)
        for process in np.unique(self.process[waits]).tolist():
            is_own = self.process == process
            own_ns, own = self._held_meanwhile(waits & is_own, holds & is_own)
            total_ns, meanwhile = total_ns + own_ns, meanwhile + own
        return total_ns, meanwhile

    def _held_meanwhile(self, waits: Bools, holds: Bools) -> tuple[int, Floats]:
        """Return ``held_meanwhile`` of one process, of which ``holds`` are the cells that hold."""
        meanwhile = np.zeros(len(self.lock), np.float64)
        chunks = [each for each in self.chunks if self._touches(each)]
        if not chunks or not waits.any():
            return 0, meanwhile
        # Of a very long recording, pieces at equal distances stand for all.
        touching = chunks
        chunks = touching[:: -(-len(touching) // MAX_READ)]
        scale = len(touching) / len(chunks)
        grid = _Grid(min(chunk.start_ns for chunk in chunks), max(chunk.end_ns for chunk in chunks))
        total_ns = 0
        for chunk in chunks:
            block = _some(self._read(chunk), waits)
            grid.add(block)
            total_ns += int(block.wall_ns.sum())
        grid.finish()
        for chunk in chunks:
            block = self._read(chunk)
            held = _some(block, holds)
            thread, own = self.thread_id[held.cell], _some(block, waits)
            found = grid.within(held) - _own(held, thread, own, self.thread_id[own.cell])
            np.add.at(meanwhile, held.cell, np.maximum(found, 0))
        return round(total_ns * scale), meanwhile * scale

    def part(self, block: Block) -> Block:
        """Return the parts of some intervals that lie in the time of the snapshot."""
        return block if self.between_ns is None else cut(block, *self.between_ns)

    def _touches(self, chunk: AnyChunk) -> bool:
        start_ns, end_ns = self.between_ns or (chunk.start_ns, chunk.end_ns)
        return chunk.start_ns <= end_ns and chunk.end_ns >= start_ns

    def _read(self, chunk: AnyChunk) -> Block:
        return self.part(chunk.read())


def _some(block: Block, wanted: Bools) -> Block:
    rows = wanted[block.cell] & (block.wall_ns > 0)
    return block.take(rows)


class _Grid:
    """The sum of all waits up to a time, at equal distances."""

    def __init__(self, start_ns: int, end_ns: int) -> None:
        self._start_ns = start_ns
        self._step_ns = max(MIN_STEP_NS, -(-(end_ns - start_ns) // GRID_STEPS))
        n = -(-(end_ns - start_ns) // self._step_ns) + 2
        self._edges = np.arange(n, dtype=np.float64) * self._step_ns
        # Of the starts less the ends of waits, by the first edge after each: number, and times.
        self._count, self._times = np.zeros(n), np.zeros(n)
        self._sums = np.zeros(n)

    def add(self, waits: Block) -> None:
        for at, sign in ((waits.t0_ns, 1.0), (waits.t0_ns + waits.wall_ns, -1.0)):
            # A node of a file may have an interval that ends after it does.
            time = np.clip(at - self._start_ns, 0, int(self._edges[-1]))
            edge = -(-time // self._step_ns)
            n = len(self._edges)
            self._count += sign * np.bincount(edge, minlength=n)
            self._times += sign * np.bincount(edge, time.astype(np.float64), minlength=n)

    def finish(self) -> None:
        """Sum up. Each wait adds the time since its start, less the time since its end."""
        self._sums = self._edges * np.cumsum(self._count) - np.cumsum(self._times)

    def within(self, rows: Block) -> Floats:
        """Return how long waits lasted within each row, all together."""
        return self._up_to(rows.t0_ns + rows.wall_ns) - self._up_to(rows.t0_ns)

    def _up_to(self, at_ns: npt.NDArray[np.int64]) -> Floats:
        return np.interp((at_ns - self._start_ns).astype(np.float64), self._edges, self._sums)


def _own(
    held: Block,
    thread: npt.NDArray[np.uint32],
    waits: Block,
    waiting: npt.NDArray[np.uint32],
) -> Floats:
    """Return how long waits of the same thread lasted within each row that held the lock.

    All rows are by thread, then by time, as a chunk has them.
    """
    if not len(held.t0_ns) or not len(waits.t0_ns):
        return np.zeros(len(held.t0_ns))
    # The threads one after another on one line, with room between them.
    start = min(int(held.t0_ns.min()), int(waits.t0_ns.min()))
    end = max(int((each.t0_ns + each.wall_ns).max()) for each in (held, waits))
    threads = np.unique(waiting)
    room = float(end - start + 1)

    def place(at_ns: npt.NDArray[np.int64], of: npt.NDArray[np.uint32]) -> Floats:
        return np.asarray(np.searchsorted(threads, of) * room + (at_ns - start), np.float64)

    begin, stop = place(waits.t0_ns, waiting), place(waits.t0_ns + waits.wall_ns, waiting)
    stop[:-1] = np.minimum(stop[:-1], begin[1:])
    edges = np.stack((begin, stop), axis=1).ravel()
    sums = np.repeat(np.cumsum(stop - begin), 2)
    sums[::2] -= stop - begin
    found = np.interp(place(held.t0_ns + held.wall_ns, thread), edges, sums)
    found -= np.interp(place(held.t0_ns, thread), edges, sums)
    found[~np.isin(thread, threads)] = 0
    return found.astype(np.float64, copy=False)


def take_lock_intervals(
    intervals: Intervals,
    stacks: Stacks,
    threads: Mapping[int, Thread],
    t0_ns: int | None,
    t1_ns: int | None,
) -> LockIntervals:
    """Take a snapshot; ``Profile`` holds the lock. See ``Profile.lock_intervals``."""
    thread_id, stack, state, sysno = intervals.cell_columns()
    lock = lock_states(stacks.stack_marks()[stack], state, sysno)
    between_ns = None
    if t0_ns is not None or t1_ns is not None:
        between_ns = t0_ns or 0, intervals.now_ns if t1_ns is None else t1_ns
    chunks = intervals.snapshot(between_ns, with_past=False)
    node = stacks.stack_nodes()[stack]
    process = _processes(thread_id, threads)
    return LockIntervals(chunks, thread_id, node, state, lock, between_ns, process)


def _processes(
    thread_id: npt.NDArray[np.uint32], threads: Mapping[int, Thread]
) -> npt.NDArray[np.int32] | None:
    """Return the processes of threads; None if there is one only."""
    if len({each.process for each in threads.values()}) < 2:
        return None
    different, at = np.unique(thread_id, return_inverse=True)
    known = [threads.get(each) for each in different.tolist()]
    return np.array([each.process if each else 0 for each in known], np.int32)[at]
