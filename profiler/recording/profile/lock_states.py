"""Tell what a thread did with the interpreter's lock (the GIL), by marks of stacks. Pure functions.

The stack has a mark: its thread held the lock, waited for it, or had released it. A thread that
waits for a CPU has no new stack; the agent says in how much of that time it still held the lock.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ...linux.syscalls import LOCK
from ...model import LockState, ThreadState
from ...wire.abi import MARK_COLLECTING, MARK_LOCK
from .totals import CellWeights, by_thread

Bools = npt.NDArray[np.bool_]


def lock_states(
    marks: npt.NDArray[np.uint8], state: npt.NDArray[np.uint8], sysno: npt.NDArray[np.int16]
) -> npt.NDArray[np.uint8]:
    """Return the ``LockState`` of each row.

    Args:
        marks: of the stack (``abi.h``: ``enum mark``).
        state: ``ThreadState``.
        sysno: the system call, or what stands in its place.
    """
    lock = marks & np.uint8(MARK_LOCK)
    no_longer_holds = (state == ThreadState.QUEUED) & (sysno == LOCK)
    states: npt.NDArray[np.uint8] = np.where(no_longer_holds, np.uint8(LockState.RELEASED), lock)
    return states


def are_holding(
    marks: npt.NDArray[np.uint8], state: npt.NDArray[np.uint8], sysno: npt.NDArray[np.int16]
) -> Bools:
    """Return in which rows the thread holds the lock; arguments as for ``lock_states``."""
    holds: Bools = lock_states(marks, state, sysno) == LockState.HELD
    return holds


def lock_times(
    cells: CellWeights, marks_of_stack: npt.NDArray[np.uint8]
) -> dict[LockState, dict[int, int]]:
    """Return the weight of each thread by what it did with the lock; without ``NONE``.

    Args:
        cells: weights by thread, stack, state and system call.
        marks_of_stack: the marks of each stack.
    """
    lock = lock_states(marks_of_stack[cells.stack], cells.state, cells.sysno)
    times = {}
    for each in (LockState.HELD, LockState.AWAITED, LockState.RELEASED):
        rows = lock == each
        times[each] = by_thread(cells.thread_id[rows], cells.weight[rows])
    return times


class Collections(NamedTuple):
    """Stacks of threads that hold the lock, in columns: do they collect garbage?"""

    node: npt.NDArray[np.int32]  # the leaf in the trie
    collects: Bools


def collections(
    node_of_stack: npt.NDArray[np.int32], marks_of_stack: npt.NDArray[np.uint8]
) -> Collections:
    """Return the stacks with the lock. Another thread than the one that collects may be marked."""
    holds = marks_of_stack & np.uint8(MARK_LOCK) == LockState.HELD
    return Collections(node_of_stack[holds], marks_of_stack[holds] & MARK_COLLECTING > 0)
