"""Sum the weights of intervals per cell.

A cell is one thread, one stack, one state, one system call. There may be a million cells. They are
stored in columns, with a hash table to find them. The table uses open addressing and 4-byte slots,
and processes a whole batch at once; a dict would need 100 bytes a cell.

A batch for which the budget may not suffice creates no cells: its new ones are counted in one cell
of their thread and state, that of the stack ``STACK_FULL``.

Not thread-safe; ``Profile`` holds the lock.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ...model import Clock, ThreadState
from .budget import CELL_BYTES, Budget
from .stacks import STACK_FULL

Int32s = npt.NDArray[np.int32]
Int64s = npt.NDArray[np.int64]

_FREE = -1
# Odd and random: the target chooses threads and system calls, and must not know which share a slot.
_MIX_WHAT = np.uint64(secrets.randbits(64) | 1)
_MIX_THREAD = np.uint64(secrets.randbits(64) | 1)


@dataclass(frozen=True)
class CellWeights:
    """The cells that have weight, one row each; a copy."""

    thread_id: npt.NDArray[np.uint32]
    stack: Int32s
    state: npt.NDArray[np.uint8]  # enum ThreadState
    sysno: npt.NDArray[np.int16]  # -1 if the thread waits in no system call
    weight: Int64s


def weigh(clock: Clock, state: npt.NDArray[Any], wall: Int64s, cpu: Int64s) -> Int64s:
    """Return the weights of intervals by a clock, in nanoseconds.

    The off-CPU weight of a running thread is the part of its wall time that it did not use.
    """
    if clock is Clock.CPU:
        return cpu
    if clock is Clock.WALL:
        return wall
    return np.where(state == ThreadState.RUNNING, np.maximum(wall - cpu, 0), wall)


def by_thread(thread_id: npt.NDArray[np.uint32], weight: Int64s) -> dict[int, int]:
    """Return the sum of weights of each thread."""
    thread_ids, which = np.unique(thread_id, return_inverse=True)
    sums = np.zeros(len(thread_ids), np.int64)
    np.add.at(sums, which, weight)
    return dict(zip(thread_ids.tolist(), sums.tolist(), strict=True))


class Cells:
    """The cells of a profile and their sums; see the module docstring. Numbered 0, 1, 2 …

    Args:
        budget: what they may take.

    Attributes:
        refused: the number of rows that are counted elsewhere for want of room.
    """

    def __init__(self, budget: Budget) -> None:
        self.refused = 0
        self._budget = budget
        self._length = 0
        self._thread = np.zeros(256, np.uint32)
        self._what = np.zeros(256, np.int64)  # stack << 19 | sysno << 3 | state
        self._sums = {clock: np.zeros(256, np.int64) for clock in Clock}
        self._samples = np.zeros(256, np.uint32)
        self._slots = np.full(1 << 10, _FREE, np.int32)

    def __len__(self) -> int:
        return self._length

    @property
    def thread_id(self) -> npt.NDArray[np.uint32]:
        """The thread of each cell."""
        return self._thread[: self._length]

    @property
    def stack(self) -> Int32s:
        """The stack of each cell."""
        return (self._what[: self._length] >> 19).astype(np.int32)

    @property
    def state(self) -> npt.NDArray[np.uint8]:
        """The state of each cell, enum ThreadState."""
        return (self._what[: self._length] & 7).astype(np.uint8)

    @property
    def sysno(self) -> npt.NDArray[np.int16]:
        """The system call in which each cell's thread waits, -1 for none."""
        return (self._what[: self._length] >> 3).astype(np.int16)

    def thread_of(self, cell: Int32s) -> npt.NDArray[np.uint32]:
        """Return the threads of some cells."""
        return self._thread[cell]

    def rows_since(self, n: int) -> tuple[npt.NDArray[np.uint32], Int64s]:
        """Return the threads, and the packed rest, of the cells from number ``n`` on; copies."""
        return self._thread[n : self._length].copy(), self._what[n : self._length].copy()

    def extend(self, thread_id: npt.NDArray[np.uint32], what: Int64s, n_stacks: int) -> None:
        """Add cells that ``rows_since`` has returned. None can be found afterwards.

        Args:
            thread_id: the thread of each.
            what: the rest of each.
            n_stacks: the number of stacks that there are.

        Raises:
            ValueError: one is of a stack or state that is not there, or the budget is too small.
        """
        state, stack = what & 7, what >> 19
        is_wrong = (state < min(ThreadState)) | (state > max(ThreadState))
        if len(thread_id) != len(what) or (is_wrong | (stack < 0) | (stack >= n_stacks)).any():
            raise ValueError("a sum is of a stack that is not there")
        if not self._budget.take(CELL_BYTES * len(what)):
            raise ValueError("it has more different sums than fit into memory")
        self._number(thread_id, what)

    def state_of(self, cell: Int32s) -> npt.NDArray[np.uint8]:
        """Return the states of some cells, enum ThreadState."""
        return (self._what[cell] & 7).astype(np.uint8)

    def sums(self, clock: Clock) -> Int64s:
        """Return the weight of each cell so far, in nanoseconds; a copy."""
        sums: Int64s = self._sums[clock][: self._length].copy()
        return sums

    def samples(self) -> Int64s:
        """Return the number of stacks taken in each cell; a copy."""
        return self._samples[: self._length].astype(np.int64)

    def add(self, cell: Int32s, wall: Int64s, cpu: Int64s, samples: npt.NDArray[np.uint32]) -> None:
        """Add intervals to their cells."""
        state = self.state_of(cell)
        for clock, sums in self._sums.items():
            np.add.at(sums, cell, weigh(clock, state, wall, cpu))
        np.add.at(self._samples, cell, samples)

    def add_sums(
        self, cell: Int32s, wall: Int64s, cpu: Int64s, off: Int64s, samples: Int64s
    ) -> None:
        """Add sums of intervals to their cells, each named once.

        Raises:
            ValueError: one is of a cell that is not there.
        """
        if len(cell) and not 0 <= int(cell.min()) <= int(cell.max()) < self._length:
            raise ValueError("a sum is of a stack that is not there")
        for clock, weight in ((Clock.WALL, wall), (Clock.CPU, cpu), (Clock.OFF_CPU, off)):
            self._sums[clock][cell] += weight
        self._samples[cell] += samples.astype(np.uint32)

    def clear(self, cells: npt.NDArray[np.bool_]) -> None:
        """Set the sums of some cells to 0.

        Args:
            cells: whether to clear each cell.
        """
        for sums in self._sums.values():
            sums[: self._length][cells] = 0
        self._samples[: self._length][cells] = 0

    def find(
        self,
        thread_id: npt.NDArray[np.uint32],
        stack: Int32s,
        sysno: npt.NDArray[np.int16],
        state: npt.NDArray[np.uint8],
    ) -> Int32s:
        """Return the cell of each row; create missing cells."""
        what = stack.astype(np.int64) << 19 | sysno.astype(np.uint16).astype(np.int64) << 3 | state
        if not self._budget.has(CELL_BYTES * len(what)):
            is_new = ~self._has(thread_id, what)
            what[is_new] = STACK_FULL << 19 | 0xFFFF << 3 | state[is_new].astype(np.int64)
            self.refused += int(np.count_nonzero(is_new))
        before = self._length
        cells = self._find(thread_id, what)
        self._budget.spend(CELL_BYTES * (self._length - before))
        return cells

    def _find(self, thread_id: npt.NDArray[np.uint32], what: Int64s) -> Int32s:
        while 2 * (self._length + len(what)) > len(self._slots):
            self._slots = np.full(2 * len(self._slots), _FREE, np.int32)
            self._probe(self.thread_id, self._what[: self._length], is_known=True)
        return self._probe(thread_id, what, is_known=False)

    def _has(self, thread_id: npt.NDArray[np.uint32], what: Int64s) -> npt.NDArray[np.bool_]:
        """Return for each row whether its cell exists."""
        slot = self._first_slots(thread_id, what)
        has = np.zeros(len(what), bool)
        rows = np.arange(len(what))
        while len(rows):
            held = self._slots[slot[rows]]
            rows, held = rows[held != _FREE], held[held != _FREE]
            matches = (self._what[held] == what[rows]) & (self._thread[held] == thread_id[rows])
            has[rows[matches]] = True
            rows = rows[~matches]
            slot[rows] = (slot[rows] + 1) & (len(self._slots) - 1)
        return has

    def _first_slots(self, thread_id: npt.NDArray[np.uint32], what: Int64s) -> Int64s:
        mixed = (what.view(np.uint64) + thread_id * _MIX_THREAD) * _MIX_WHAT
        slots: Int64s = (mixed >> np.uint64(32)).astype(np.int64) & (len(self._slots) - 1)
        return slots

    def _probe(self, thread_id: npt.NDArray[np.uint32], what: Int64s, *, is_known: bool) -> Int32s:
        """Find the cell of each row, or put it into a free slot.

        Args:
            thread_id: the thread of each row.
            what: the rest of the key of each row, as in ``_what``.
            is_known: the rows are the existing cells in order (to fill a larger table); otherwise
                a row that is not found becomes a new cell.
        """
        mask = len(self._slots) - 1
        slot = self._first_slots(thread_id, what)
        cells = np.empty(len(what), np.int32)
        rows = np.arange(len(what))  # rows without a slot so far
        while len(rows):
            at = slot[rows]
            free = self._slots[at] == _FREE
            if free.any():
                # Several rows may want one free slot. The last one written gets it, for all rows of
                # the same key. The others find the slot occupied below and try the next one.
                candidates = rows[free]
                self._slots[at[free]] = candidates
                winners = candidates[self._slots[at[free]] == candidates]
                numbers = winners if is_known else self._number(thread_id[winners], what[winners])
                self._slots[slot[winners]] = numbers
            held = self._slots[at]
            matches = (self._what[held] == what[rows]) & (self._thread[held] == thread_id[rows])
            cells[rows[matches]] = held[matches]
            rows = rows[~matches]
            slot[rows] = (slot[rows] + 1) & mask
        return cells

    def _number(self, thread_id: npt.NDArray[np.uint32], what: Int64s) -> npt.NDArray[np.intp]:
        start, end = self._length, self._length + len(what)
        if end > len(self._what):
            room = max(end, len(self._what) * 3 // 2)
            self._thread = _grown(self._thread, room)
            self._what = _grown(self._what, room)
            self._sums = {clock: _grown(sums, room) for clock, sums in self._sums.items()}
            self._samples = _grown(self._samples, room)
        self._thread[start:end] = thread_id
        self._what[start:end] = what
        self._length = end
        return np.arange(start, end)


def _grown(column: npt.NDArray[Any], room: int) -> npt.NDArray[Any]:
    grown = np.zeros(room, column.dtype)
    grown[: len(column)] = column
    return grown
