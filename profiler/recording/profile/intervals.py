"""Store the intervals of a profile, and compute their sums.

Each interval belongs to a *cell*: one thread, one stack, one state, one system call. We add each
new interval to the sums of its cell, so a view of the whole profile does not read the intervals. A
view of a time range adds up the intervals that overlap it.

New rows are appended to a tail. When it has CHUNK_ROWS rows, they are packed into a
:class:`Chunk`. A thread may have one open interval. It is kept apart until a later record closes
it, and counts up to the time of the last batch.

When the chunks exceed their limit, the oldest one is added to the :class:`Past`: its sums stay
exact, its intervals lose their moments. They are counted in ``merged``. The intervals of a long
recording that was opened stay in its file (:mod:`stored`).

Not thread-safe; ``Profile`` holds the lock. All times and durations are nanoseconds.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ...linux.syscalls import QUEUED
from ...model import Clock, ThreadState
from ...wire.abi import INTERVAL_OPEN
from ...wire.decoder import MAX_NS
from .budget import INTERVALS_BYTES, Budget
from .interval_chunk import (
    BYTES_A_ROW,
    LOCK_COLUMNS,
    ROW_DTYPE,
    AnyChunk,
    Block,
    Chunk,
    Rows,
    block_of,
    check_rows,
    cut,
    joined_rows,
)
from .past import Past
from .stored import StoredIntervals
from .totals import Cells, CellWeights, Int32s, Int64s, weigh

# Few enough that packing a chunk (some 30 ms) does not delay readers noticeably. Enough that the
# overhead of the numpy calls for a chunk is small compared with adding up its rows.
CHUNK_ROWS = 1 << 18


class NewRows(NamedTuple):
    """What the intervals have gained."""

    thread_id: npt.NDArray[np.uint32]  # of each new cell …
    what: Int64s  # … and the rest of it (``totals.Cells``)
    ended: Rows
    open: Rows  # all that are open now
    now_ns: int


class IntervalMoments(NamedTuple):
    """All intervals at one moment."""

    chunks: list[Chunk]
    n_before: int  # intervals before the first row of the tail
    tail: Rows  # only more rows are added to it, until it becomes a chunk
    open: Rows  # extended to the time of the last batch
    past: Rows  # one for each cell: the sum of what has lost its moments …
    past_ns: tuple[int, int]  # … in this time
    stored: StoredIntervals | None  # what is in a file


class Intervals:
    """The intervals of a profile; see the module docstring.

    Args:
        budget: what the cells may take.
        limit_bytes: what the chunks may take.

    Attributes:
        merged: the number of intervals of which only the sums are kept.
    """

    def __init__(self, budget: Budget, limit_bytes: int = INTERVALS_BYTES) -> None:
        self._cells = Cells(budget)
        self._past = Past()
        self._max_chunks = max(1, limit_bytes // (CHUNK_ROWS * BYTES_A_ROW))
        self.merged = 0
        self._hidden = np.empty(0, np.uint32)  # thread ids
        self._chunks: list[Chunk] = []
        self._tail = np.empty(CHUNK_ROWS, ROW_DTYPE)  # its pages become resident as it fills
        self._n_tail = 0
        self._open: Rows = np.empty(0, ROW_DTYPE)
        self._kept: list[Rows] | None = None  # rows for ``take_new``
        self._stored: StoredIntervals | None = None
        self.now_ns = 0

    def keep_new(self, *, is_wanted: bool = True) -> None:
        """From now on, keep each row that is added for ``take_new``, or none any more."""
        self._kept = [] if is_wanted else None

    def take_new(self, n_cells: int) -> NewRows:
        """Return the rows that have ended since the last call, those that are open, new cells.

        Args:
            n_cells: the number of cells that the caller knows.
        """
        ended = joined_rows(self._kept or ())
        self._kept = []
        return NewRows(*self._cells.rows_since(n_cells), ended, self._open.copy(), self.now_ns)

    def extend(self, new: NewRows, n_stacks: int, *, with_ended: bool = True) -> None:
        """Add rows that ``take_new`` has returned.

        Args:
            new: the rows.
            n_stacks: the number of stacks that there are.
            with_ended: False leaves out those that have ended.

        Raises:
            ValueError: a row makes no sense, or the budget does not suffice.
        """
        self._cells.extend(new.thread_id, new.what, n_stacks)
        for rows in (new.ended, new.open):
            check_rows(rows, len(self._cells))
        if not 0 <= new.now_ns < MAX_NS:
            raise ValueError("it has an impossible time")
        if with_ended:
            self._append(new.ended)
        self._open = new.open
        self.now_ns = max(self.now_ns, new.now_ns)

    def add_rows(self, rows: Rows) -> None:
        """Add rows of cells that are there. Raises ValueError."""
        check_rows(rows, len(self._cells))
        self._append(rows)

    @property
    def n_cells(self) -> int:
        """The number of cells."""
        return len(self._cells)

    def store(self, stored: StoredIntervals) -> None:
        """Add the intervals that are in a file.

        Raises:
            ValueError: a sum is of a cell that is not there, or they are too large.
            InputError: the file cannot be read.
        """
        singles = stored.singles
        check_rows(singles, len(self._cells))
        for sums in stored.root_sums():
            self._cells.add_sums(sums.cell, sums.wall_ns, sums.cpu_ns, sums.off_ns, sums.samples)
        self._add_to_cells(singles)
        self._cells.clear(np.isin(self._cells.thread_id, self._hidden))
        self._stored = stored

    @property
    def has_open(self) -> bool:
        """True while a thread has an open interval."""
        return len(self._open) > 0

    @property
    def n_packed(self) -> int:
        """The number of chunks made so far."""
        return self.merged // CHUNK_ROWS + len(self._chunks)

    @property
    def refused(self) -> int:
        """The number of intervals whose cell found no room."""
        return self._cells.refused

    @property
    def n_open(self) -> int:
        """The number of open intervals."""
        return len(self._open)

    def add(self, records: npt.NDArray[np.void], stacks: Int32s, now_ns: int) -> None:
        """Add the intervals of one batch.

        Args:
            records: the intervals, dtype ``decoder.INTERVAL_DTYPE``.
            stacks: the stack of each record.
            now_ns: time of the batch; open intervals last at least until then.
        """
        if len(records):
            self._settle(records, stacks)
        self.now_ns = max(self.now_ns, now_ns)

    def _settle(self, records: npt.NDArray[np.void], stacks: Int32s) -> None:
        """Append the intervals that have ended, and keep the open ones, old and new."""
        new = np.empty(len(records), ROW_DTYPE)
        for name in ("t0_ns", "wall_ns", "cpu_ns", "samples", *LOCK_COLUMNS):
            new[name] = records[name]
        new["cell"] = self._cells.find(
            records["thread_id"], stacks, records["sysno"], records["state"]
        )
        rows = np.concatenate((self._open, new))
        is_open = np.concatenate(
            (np.ones(len(self._open), bool), records["flags"] & INTERVAL_OPEN != 0)
        )
        thread = self._cells.thread_id[rows["cell"]]
        # Sort by thread, stable: the agent closes a thread's interval before it sends the next one.
        order = np.argsort(thread, kind="stable")
        rows, is_open, thread = rows[order], is_open[order], thread[order]
        t0 = rows["t0_ns"]
        has_next = np.zeros(len(rows), bool)
        has_next[:-1] = thread[1:] == thread[:-1]
        next_t0 = np.zeros(len(rows), np.int64)
        next_t0[:-1] = t0[1:]
        is_replaced = is_open & has_next & (next_t0 == t0)
        # The closing record was lost: the interval ended at the latest when the next one began.
        is_cut = is_open & has_next & ~is_replaced
        wall = rows["wall_ns"]
        until_next = np.minimum(np.maximum(wall, self.now_ns - t0), next_t0 - t0)
        rows["wall_ns"][is_cut] = np.maximum(wall, until_next)[is_cut]
        goes_on = is_open & ~has_next
        self._open = rows[goes_on]
        self._append(rows[~is_replaced & ~goes_on])

    def close(self, thread_ids: Collection[int], at_ns: int | None = None) -> None:
        """End the open intervals of threads that have exited.

        Args:
            thread_ids: of the threads.
            at_ns: when they have; None for the time of the last batch.
        """
        if not self.has_open:
            return
        thread = self._cells.thread_id[self._open["cell"]]
        is_over = np.isin(thread, np.fromiter(thread_ids, np.uint32))
        rows = self._open[is_over]
        end_ns = self.now_ns if at_ns is None else at_ns
        rows["wall_ns"] = np.maximum(rows["wall_ns"], end_ns - rows["t0_ns"])
        self._append(rows)
        self._open = self._open[~is_over]

    def hide(self, thread_ids: Collection[int]) -> None:
        """Remove all weight of some threads."""
        self._hidden = np.append(self._hidden, np.fromiter(thread_ids, np.uint32))
        self._cells.clear(np.isin(self._cells.thread_id, self._hidden))
        thread = self._cells.thread_id[self._open["cell"]]
        self._open = self._open[~np.isin(thread, self._hidden)]

    def _held(self) -> Rows:
        """Return the open intervals, extended to the time of the last batch."""
        rows: Rows = self._open.copy()
        rows["wall_ns"] = np.maximum(rows["wall_ns"], self.now_ns - rows["t0_ns"])
        return rows

    def _append(self, rows: Rows) -> None:
        if self._kept is not None and len(rows):
            self._kept.append(rows)
        self._add_to_cells(rows)
        while len(rows):
            fitting = rows[: CHUNK_ROWS - self._n_tail]
            self._tail[self._n_tail : self._n_tail + len(fitting)] = fitting
            self._n_tail += len(fitting)
            rows = rows[len(fitting) :]
            if self._n_tail == CHUNK_ROWS:
                self._chunks.append(self._chunk(self._tail))
                self._n_tail = 0
                if len(self._chunks) > self._max_chunks:
                    self._past.add(self._chunks.pop(0), len(self._cells))
                    self.merged += CHUNK_ROWS

    def _add_to_cells(self, rows: Rows) -> None:
        self._cells.add(
            rows["cell"], rows["wall_ns"], rows["cpu_ns"], rows["samples"].astype(np.uint32)
        )

    def totals(self, clock: Clock) -> CellWeights:
        """Return the weight of each cell in the whole profile."""
        return self._weights(self.sums(clock))

    def samples(self, clock: Clock) -> CellWeights:
        """Return the number of stacks taken in each cell.

        CPU counts those of running threads, off-CPU the others, wall all.
        """
        weight = self.sample_counts()
        if clock is not Clock.WALL:
            weight[(self._cells.state == ThreadState.RUNNING) != (clock is Clock.CPU)] = 0
        return self._weights(weight)

    def span(self, clock: Clock, t0_ns: int, t1_ns: int) -> CellWeights:
        """Return the weight of each cell between two times.

        The CPU time of an interval that is only partly inside counts pro rata.
        """
        return self._weights(self.sums_between(clock, t0_ns, t1_ns))

    def sums(self, clock: Clock) -> Int64s:
        """Return the weight of each cell in the whole profile, also of those that have none."""
        weight = self._cells.sums(clock)
        held = self._held()
        state = self._cells.state_of(held["cell"])
        np.add.at(weight, held["cell"], weigh(clock, state, held["wall_ns"], held["cpu_ns"]))
        return weight

    def sample_counts(self) -> Int64s:
        """Return the number of stacks taken in each cell."""
        counts = self._cells.samples()
        np.add.at(counts, self._open["cell"], self._open["samples"])
        return counts

    def sums_between(self, clock: Clock, t0_ns: int, t1_ns: int) -> Int64s:
        """Return the weight of each cell between two times; see ``span``."""
        weight = np.zeros(len(self._cells), np.int64)
        self._add_block(weight, clock, self._past.block(t0_ns, t1_ns))
        if self._stored is not None:
            self._add_block(weight, clock, self._stored.add_span(weight, clock, t0_ns, t1_ns))
        for chunk in self._chunks:
            if chunk.start_ns >= t1_ns or chunk.end_ns < t0_ns:
                continue
            is_inside = chunk.start_ns >= t0_ns and chunk.end_ns <= t1_ns
            block = chunk.read()
            self._add_block(weight, clock, block if is_inside else cut(block, t0_ns, t1_ns))
        for rows in (self._tail[: self._n_tail], self._held()):
            self._add_block(weight, clock, cut(block_of(rows), t0_ns, t1_ns))
        weight[np.isin(self._cells.thread_id, self._hidden)] = 0
        return weight

    def _add_block(self, weight: Int64s, clock: Clock, block: Block) -> None:
        # States are dear to find for ten million intervals, and matter for one clock only.
        is_off = clock is Clock.OFF_CPU
        state = self._cells.state_of(block.cell) if is_off else np.empty(0, np.uint8)
        np.add.at(weight, block.cell, weigh(clock, state, block.wall_ns, block.cpu_ns))

    def snapshot(
        self, between_ns: tuple[int, int] | None = None, *, with_past: bool = True
    ) -> list[AnyChunk]:
        """Return all current intervals in chunks, which may be read without the lock.

        Args:
            between_ns: only chunks that overlap this range of time; None for all. The sums of
                intervals that have lost their moments are then those of the range.
            with_past: include these sums.
        """
        rest = np.concatenate((self._tail[: self._n_tail], self._held()))
        chunks: list[AnyChunk] = [
            *(self._stored.chunks if self._stored is not None else ()),
            *(
                self._chunk(rows)
                for rows in (self._past.rows(between_ns),)
                if len(rows) and with_past
            ),
            *self._chunks,
            *(self._chunk(rows) for rows in (rest,) if len(rows)),
        ]
        if between_ns is None:
            return chunks
        start_ns, end_ns = between_ns
        return [each for each in chunks if each.start_ns < end_ns and each.end_ns >= start_ns]

    def _chunk(self, rows: Rows) -> Chunk:
        return Chunk(rows, self._cells.thread_id[rows["cell"]])

    def moments(self) -> IntervalMoments:
        """Return all current intervals; copies, or immutable."""
        return IntervalMoments(
            list(self._chunks),
            CHUNK_ROWS * self.n_packed,
            self._tail[: self._n_tail].copy(),
            self._held(),
            self._past.rows(),
            self._past.between_ns,
            self._stored,
        )

    def cell_columns(
        self,
    ) -> tuple[npt.NDArray[np.uint32], Int32s, npt.NDArray[np.uint8], npt.NDArray[np.int16]]:
        """Return the columns (thread_id, stack, state, sysno) of the cells; copies."""
        cells = self._cells
        return cells.thread_id.copy(), cells.stack, cells.state, cells.sysno

    @property
    def thread_of(self) -> Callable[[Int32s], npt.NDArray[np.uint32]]:
        """Returns the threads of some cells."""
        return self._cells.thread_of

    def open_waits(self) -> dict[int, int]:
        """Return by thread id the number of the system call in which the thread now waits.

        ``QUEUED`` if it waits for a CPU; -1 if it waits in no system call, for a page say.
        """
        cell = self._open["cell"]
        state = self._cells.state_of(cell)
        is_queued = state == ThreadState.QUEUED
        waits = is_queued | (state == ThreadState.PARKED)
        thread, sysno = self._cells.thread_id[cell], self._cells.sysno[cell]
        sysno = np.where(is_queued, np.int16(QUEUED), sysno)
        thread, sysno = thread[waits], sysno[waits]
        return dict(zip(thread.tolist(), sysno.tolist(), strict=True))

    def _weights(self, weight: Int64s) -> CellWeights:
        cells, some = self._cells, np.flatnonzero(weight)
        return CellWeights(
            cells.thread_id[some],
            cells.stack[some],
            cells.state[some],
            cells.sysno[some],
            weight[some],
        )
