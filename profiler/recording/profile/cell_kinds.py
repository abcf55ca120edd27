"""Tell cells apart by what a timeline shows of them. Not thread-safe.

Cells are of one kind if they are of the same thread, in the same state, system call and state of a
lock. Those that sleep in a futex are also of the same stack: its names say what the thread waits
for (``wait_stacks``), and are not known here. Of a thread that sleeps in very many stacks, those
that come later are taken for one. A kind is known by its first cell.
"""

from __future__ import annotations

import numpy as np

from ...model import LockState, ThreadState
from .activities import are_futex_waits
from .cell_keys import Cells
from .node_sums import CellKinds

MAX_STACKS = 32  # of a thread's sleeps in a futex
_NO_STACK, _OTHERS = -1, -2


class KindsOfCells:
    """The kinds of all cells so far; see the module docstring."""

    def __init__(self) -> None:
        self._is_running = np.empty(0, bool)
        self._first = np.empty(0, np.int32)
        self._known: dict[tuple[int, ...], int] = {}
        self._stacks: dict[int, set[int]] = {}  # of sleeps in a futex, by thread

    def __len__(self) -> int:
        return len(self._first)

    def extend(self, cells: Cells) -> None:
        """Add the cells that come after those that are known."""
        is_futex = are_futex_waits(cells.state, cells.sysno)
        keys = zip(
            cells.thread_id.tolist(),
            cells.state.tolist(),
            cells.sysno.tolist(),
            (cells.lock == LockState.HELD).tolist(),
            map(
                self._stack_of,
                cells.thread_id.tolist(),
                np.where(is_futex, cells.stack, _NO_STACK).tolist(),
            ),
            strict=True,
        )
        n = len(self._first)
        first = [self._known.setdefault(key, n + at) for at, key in enumerate(keys)]
        self._first = np.append(self._first, np.array(first, np.int32))
        self._is_running = np.append(self._is_running, cells.state == ThreadState.RUNNING)

    def _stack_of(self, thread_id: int, stack: int) -> int:
        """Return what stands for a stack of a thread's sleep in a futex."""
        if stack == _NO_STACK:
            return stack
        stacks = self._stacks.setdefault(thread_id, set())
        if len(stacks) < MAX_STACKS:
            stacks.add(stack)
        return stack if stack in stacks else _OTHERS

    def all(self) -> CellKinds:
        """Return the kinds of all cells."""
        return CellKinds(self._is_running, self._first)
