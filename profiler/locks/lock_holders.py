"""Tell who held locks while threads waited for them, and in which functions. Pure.

Known of mutexes of the C library and of Java's monitors: the agent saw the holder of each wait.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from .held_waits import HeldWaits
from .lock_waits import MAX_HOLDERS_OF_ALL, Holder, LockWaits


class LockHolders:
    """Tells who held locks while threads waited for them.

    Args:
        waits: those of the time that is looked at.
        thread_ids: only waits of these threads; None for all.
        own_function: returns the innermost function of the program's own that a stack has, by the
            stack's leaf in the trie; -1 for none.
    """

    def __init__(
        self,
        waits: HeldWaits,
        thread_ids: frozenset[int] | None,
        own_function: Callable[[int], int],
    ) -> None:
        self._waits = waits
        self._own_function = own_function
        self._functions: dict[int, int] = {}  # by node
        rows, lock = waits.rows()
        if thread_ids is not None:
            waiting = waits.thread_id[rows.cell]
            wanted = np.isin(waiting, np.fromiter(thread_ids, np.uint32))
            rows, lock = rows.take(wanted), lock[wanted]
        self._rows, self._lock = rows, lock
        self._node = waits.node[rows.cell]

    def of(self, nodes: npt.NDArray[np.int64]) -> LockWaits | None:
        """Return who held what the stacks with these leaves wait for; None if not known."""
        some = np.isin(self._node, nodes)
        rows, lock = self._rows.take(some), self._lock[some]
        if not len(rows.cell):
            return None
        total_ns = int(rows.wall_ns.sum())
        held = np.zeros(len(self._waits.thread_id), np.float64)
        for each in np.unique(lock).tolist():
            held += self._waits.held_meanwhile(rows.take(lock == each), each)
        sums = defaultdict[tuple[int, int], float](float)
        for cell in np.flatnonzero(held).tolist():
            function = self._function(int(self._waits.node[cell]))
            sums[int(self._waits.thread_id[cell]), function] += float(held[cell])
        scale = min(1.0, total_ns / max(sum(sums.values()), 1.0))
        found = [Holder(*who, round(ns * scale)) for who, ns in sums.items()]
        heaviest = sorted(found, key=lambda each: -each.ns)[:MAX_HOLDERS_OF_ALL]
        return LockWaits(total_ns, heaviest)

    def _function(self, node: int) -> int:
        if node not in self._functions:
            self._functions[node] = self._own_function(node)
        return self._functions[node]
