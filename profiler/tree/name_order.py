"""The order of siblings in call trees: by name of the function, then module, file and id."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ..model import Function

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Order:
    """The order of all functions at one moment."""

    rank: Ints  # of each function, by id
    by_rank: Ints  # the function at each rank


class NameOrder:
    """The order of the functions of one growing sequence. Threads may share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._by_rank: list[int] = []
        self._order = Order(np.empty(0, np.int64), np.empty(0, np.int64))

    def of(self, functions: Sequence[Function]) -> Order:
        """Return the order of the functions that there are now."""
        with self._lock:
            count = len(functions)
            if len(self._by_rank) < count:
                # The old ids are already sorted, which makes sort() fast.
                self._by_rank += range(len(self._by_rank), count)
                self._by_rank.sort(
                    key=lambda i: (functions[i].name, functions[i].module, functions[i].file, i)
                )
                by_rank = np.array(self._by_rank, np.int64)
                rank = np.empty(count, np.int64)
                rank[by_rank] = np.arange(count)
                self._order = Order(rank, by_rank)
            return self._order
