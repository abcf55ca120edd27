"""Turn a table of stacks that refer to their callers' stacks into nodes, each once."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .builder import ROOT, Builder
from .columns import Int64s, distinct

_OPEN = -1  # its callers are being looked at
_UNKNOWN = -2


class PrefixStacks:
    """The stacks of a table, as far as they are used.

    Args:
        builder: gets them.
        prefix: the row of each stack's caller; below 0 for none.
        frame: returns the frame of a row, or None if it is left out.
    """

    def __init__(
        self, builder: Builder, prefix: Int64s, frame: Callable[[int], int | None]
    ) -> None:
        self._builder = builder
        self._prefix: list[int] = prefix.tolist()
        self._frame = frame
        self._node = [_UNKNOWN] * len(prefix)

    def nodes(self, rows: Int64s) -> Int64s:
        """Return the stack of each row. Raises InputError if it is its own caller.

        Args:
            rows: of the table, all of them in it.
        """
        used, which = distinct(rows, len(self._node))
        numbers = used.tolist()
        for row in numbers:
            self._find(row)
        return np.array([self._node[row] for row in numbers], np.int64)[which]

    def _find(self, row: int) -> None:
        prefix, node, child = self._prefix, self._node, self._builder.child
        path = []
        while row >= 0 and node[row] == _UNKNOWN:
            node[row] = _OPEN
            path.append(row)
            row = prefix[row]
        found = node[row] if row >= 0 else ROOT
        if found == _OPEN:
            raise self._builder.damaged("a stack is its own caller")
        for each in reversed(path):
            frame = self._frame(each)
            if frame is not None:
                found = child(found, frame)
            node[each] = found
