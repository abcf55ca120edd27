"""Number what the time bins tell apart: each thread, and what it does. Not thread-safe.

A key is ``SLOTS * index + slot``: the index counts the threads as they come; the slot is an
``Activity``, or ``HOLDING`` for the time in which the thread holds an interpreter's lock, whatever
else it does.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ...model import Activity, LockState, ThreadState
from .activities import are_futex_waits, off_cpu_activities
from .wait_stacks import WaitStacks

Int32s = npt.NDArray[np.int32]

HOLDING = len(Activity)
SLOTS = HOLDING + 1
NONE = -1


class Cells(NamedTuple):
    """Cells in columns, as in ``Intervals``."""

    thread_id: npt.NDArray[np.uint32]
    state: npt.NDArray[np.uint8]
    sysno: npt.NDArray[np.int16]
    lock: npt.NDArray[np.uint8]  # LockState
    stack: Int32s
    waits: WaitStacks  # those of cells that sleep in a futex


class CellKeys:
    """The keys of all cells so far; see the module docstring.

    Attributes:
        running: the key of each cell's CPU time.
        waiting: the key of the rest of its time.
        holding: the key of all of its time if it holds the lock, else ``NONE``.
        is_running: whether the rest is what it did not use of its time.
        thread_ids: the thread of each index.
    """

    def __init__(self) -> None:
        self.running = self.waiting = self.holding = np.empty(0, np.int32)
        self.is_running = np.empty(0, bool)
        self.thread_ids: list[int] = []
        self._index: dict[int, int] = {}
        self._futex_stack = np.empty(0, np.int32)  # of cells that sleep in a futex; else ``NONE``

    def __len__(self) -> int:
        return len(self.running)

    @property
    def n_keys(self) -> int:
        """One more than the greatest key."""
        return SLOTS * len(self.thread_ids)

    def snapshot(self) -> CellKeys:
        """Return a copy that further cells do not change."""
        copy = CellKeys()
        copy.running, copy.waiting, copy.holding = self.running, self.waiting, self.holding
        copy.is_running, copy.thread_ids = self.is_running, list(self.thread_ids)
        return copy

    def extend(self, cells: Cells, works: npt.NDArray[np.bool_]) -> None:
        """Add the cells that come after those that are known.

        Args:
            cells: all that are new.
            works: which of their ``waits`` are for another thread's work.
        """
        ids, which = np.unique(cells.thread_id, return_inverse=True)
        indexes = [self._index_of(thread_id) for thread_id in ids.tolist()]
        base = SLOTS * np.array(indexes, np.int32)[which]
        activities = off_cpu_activities(cells.state, cells.sysno)
        is_futex = are_futex_waits(cells.state, cells.sysno)
        activities[is_futex & np.isin(cells.stack, cells.waits.stack[works])] = Activity.WORK
        waiting = base + activities
        self._futex_stack = np.append(self._futex_stack, np.where(is_futex, cells.stack, NONE))
        holds = cells.lock == LockState.HELD
        self.running = np.append(self.running, base + np.int32(Activity.CPU))
        self.waiting = np.append(self.waiting, waiting.astype(np.int32))
        self.holding = np.append(self.holding, np.where(holds, base + HOLDING, NONE))
        self.holding = self.holding.astype(np.int32)
        self.is_running = np.append(self.is_running, cells.state == ThreadState.RUNNING)

    def change(self, works: Mapping[int, bool]) -> int:
        """Change what the waits of some stacks are for; return the first cell that is another now.

        Args:
            works: by stack, whether they are for another thread's work.
        """
        first = len(self)
        for stack, is_work in works.items():
            cells = np.flatnonzero(self._futex_stack == stack)
            if len(cells):
                first = min(first, int(cells[0]))
                base = self.running[cells] - np.int32(Activity.CPU)
                self.waiting = self.waiting.copy()  # snapshots have the old one
                self.waiting[cells] = base + np.int32(Activity.WORK if is_work else Activity.LOCK)
        return first

    def _index_of(self, thread_id: int) -> int:
        index = self._index.setdefault(thread_id, len(self.thread_ids))
        if index == len(self.thread_ids):
            self.thread_ids.append(thread_id)
        return index
