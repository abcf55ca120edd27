"""Tell who held locks while threads waited for them, and in which functions. Pure.

Known of mutexes of the C library and of Java's monitors: the agent saw the holder of each wait.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import numpy.typing as npt

from ..profile.held_waits import HeldWaits
from ..profile.interval_chunk import Block
from .lock_waits import MAX_HOLDERS_OF_ALL, Holder, LockWaits

_UNKNOWN = -1  # in place of a function


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
        rows, holder_id = waits.rows()
        if thread_ids is not None:
            waiting = waits.thread_id[rows.cell]
            wanted = np.isin(waiting, np.fromiter(thread_ids, np.uint32))
            rows, holder_id = rows.take(wanted), holder_id[wanted]
        self._rows, self._holder_id = rows, holder_id
        self._node = waits.node[rows.cell]

    def of(self, nodes: npt.NDArray[np.int64]) -> LockWaits | None:
        """Return who held what the stacks with these leaves wait for; None if not known."""
        some = np.isin(self._node, nodes)
        rows = self._rows.take(some)
        if not len(rows.cell):
            return None
        ids, which = np.unique(self._holder_id[some], return_inverse=True)
        sums = np.bincount(which, weights=rows.wall_ns)
        found = []
        for at in np.argsort(-sums, kind="stable")[:MAX_HOLDERS_OF_ALL].tolist():
            thread_id = int(ids[at])
            did = self._did(rows.take(which == at), thread_id)
            scale = float(sums[at]) / sum(did.values())
            found += [Holder(thread_id, f, round(ns * scale)) for f, ns in did.items()]
        heaviest = sorted(found, key=lambda each: -each.ns)[:MAX_HOLDERS_OF_ALL]
        return LockWaits(int(sums.sum()), heaviest)

    def _did(self, waits: Block, thread_id: int) -> Mapping[int, float]:
        """Return how long a holder was in each function meanwhile, as far as that is known."""
        meanwhile = self._waits.held_meanwhile(waits, thread_id)
        sums: dict[int, float] = {}
        for cell in np.flatnonzero(meanwhile).tolist():
            node = int(self._waits.node[cell])
            if node not in self._functions:
                self._functions[node] = self._own_function(node)
            function = self._functions[node]
            sums[function] = sums.get(function, 0.0) + float(meanwhile[cell])
        return sums or {_UNKNOWN: 1.0}
