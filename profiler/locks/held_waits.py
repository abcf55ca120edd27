"""Weigh what threads did while they held a lock that others waited for. Pure.

The agent says of a wait which lock it is for, and of a thread's intervals which awaited lock the
thread held at the moment of the stack. Such a moment stands for the CPU time since the sample
before; a sleeping thread holds the lock all the time.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ..model import ThreadState
from ..recording.profile.interval_chunk import Block, joined
from ..recording.profile.lock_intervals import LockIntervals

Floats = npt.NDArray[np.float64]
Locks = npt.NDArray[np.uint16]

_ASLEEP = (ThreadState.PARKED, ThreadState.BLOCKED)


class HeldWaits:
    """Waits for locks whose holder is known. Any thread may call.

    Args:
        intervals: a snapshot of all intervals; only waits in its time count.
    """

    def __init__(self, intervals: LockIntervals) -> None:
        self.thread_id, self.node = intervals.thread_id, intervals.node  # of each cell
        self._intervals = intervals
        self._held, self._held_lock = self._with_lock("held_lock")

    def rows(self) -> tuple[Block, Locks]:
        """Return the waits, and the number of the lock that each one is for."""
        rows, lock = self._with_lock("awaited_lock")
        rows = self._intervals.part(rows)
        some = rows.wall_ns > 0
        return rows.take(some), lock[some]

    def with_holder(self) -> tuple[Block, npt.NDArray[Any]]:
        """Return the waits whose holder is known, and the ``thread_id`` of each holder."""
        rows, holder_id = self._with_lock("holder_id")
        return self._intervals.part(rows), holder_id

    def last(self) -> dict[int, tuple[int, int]]:
        """Return for each thread that waited to the end of the recording who held its lock then.

        By ``thread_id``: that of the holder, and how long it has been so, nanoseconds.
        """
        rows, holder_id = self._with_lock("holder_id")
        found = {}
        waiting = self.thread_id[rows.cell]
        for thread_id in np.unique(waiting).tolist():
            own = np.flatnonzero(waiting == thread_id)
            last = own[np.argmax(rows.t0_ns[own])]
            if not self._slept_after(thread_id, int(rows.t0_ns[last])):
                found[thread_id] = int(holder_id[last]), int(rows.wall_ns[last])
        return found

    def _slept_after(self, thread_id: int, t0_ns: int) -> bool:
        """Tell whether a thread fell asleep later. The last chunks are read, few of them."""
        for chunk in reversed(self._intervals.chunks):
            if chunk.end_ns >= t0_ns:
                block = chunk.read(thread_id)
                # What it ran last may be told after its wait.
                is_asleep = np.isin(self._intervals.state[block.cell], _ASLEEP)
                if (block.t0_ns[is_asleep] > t0_ns).any():
                    return True
        return False

    def held_meanwhile(self, waits: Block, lock: int) -> Floats:
        """Return for each cell how long it held a lock during some waits, nanoseconds.

        A moment in which two threads wait counts twice. These are sums of samples: together, they
        may be a little more than the waits.

        Args:
            waits: for that lock; at least one.
            lock: its number.
        """
        held = self._held.take(self._held_lock == lock)
        waiting = _Waiting(waits)
        end_ns = held.t0_ns + held.wall_ns
        runs = self._intervals.state[held.cell] == ThreadState.RUNNING
        weights = np.where(
            runs,
            held.wall_ns * waiting.count(end_ns),
            waiting.sum_up_to(end_ns) - waiting.sum_up_to(held.t0_ns),
        )
        found = np.zeros(len(self.thread_id), np.float64)
        np.add.at(found, held.cell, weights)
        return found

    def _with_lock(self, column: str) -> tuple[Block, npt.NDArray[Any]]:
        found = [chunk.with_lock(column) for chunk in self._intervals.chunks]
        values = [np.empty(0, np.uint16), *(values for _, values in found)]
        return joined([block for block, _ in found]), np.concatenate(values)


class _Waiting:
    """How many threads wait at a time, and the sum of all waits up to it."""

    def __init__(self, waits: Block) -> None:
        self._first_ns = int(waits.t0_ns.min())
        self._begin = np.sort(waits.t0_ns - self._first_ns)
        self._stop = np.sort(waits.t0_ns + waits.wall_ns - self._first_ns)
        self._begins, self._stops = (
            np.concatenate(([0.0], np.cumsum(times, dtype=np.float64)))
            for times in (self._begin, self._stop)
        )

    def count(self, at_ns: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        begun, over = self._before(at_ns)
        return begun - over

    def sum_up_to(self, at_ns: npt.NDArray[np.int64]) -> Floats:
        begun, over = self._before(at_ns)
        time = (at_ns - self._first_ns).astype(np.float64)
        sums: Floats = time * (begun - over) - self._begins[begun] + self._stops[over]
        return sums

    def _before(
        self, at_ns: npt.NDArray[np.int64]
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        time = at_ns - self._first_ns
        return np.searchsorted(self._begin, time), np.searchsorted(self._stop, time)
