"""Tell cells apart by what a timeline shows of them. Not thread-safe.

Cells are of one kind if they are of the same thread, in the same state, system call and state of a
lock. Those that sleep in a futex are also of the same stack: its names say what the thread waits
for (``wait_stacks``), and are not known here. A kind is known by its first cell.
"""

from __future__ import annotations

import numpy as np

from ..model import LockState, ThreadState
from .activities import are_futex_waits
from .cell_keys import Cells
from .node_sums import CellKinds

_NO_STACK = -1


class KindsOfCells:
    """The kinds of all cells so far; see the module docstring."""

    def __init__(self) -> None:
        self._is_running = np.empty(0, bool)
        self._first = np.empty(0, np.int32)
        self._known: dict[tuple[int, ...], int] = {}

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
            np.where(is_futex, cells.stack, _NO_STACK).tolist(),
            strict=True,
        )
        n = len(self._first)
        first = [self._known.setdefault(key, n + at) for at, key in enumerate(keys)]
        self._first = np.append(self._first, np.array(first, np.int32))
        self._is_running = np.append(self._is_running, cells.state == ThreadState.RUNNING)

    def all(self) -> CellKinds:
        """Return the kinds of all cells."""
        return CellKinds(self._is_running, self._first)
