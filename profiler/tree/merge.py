"""Merge the nodes of a tree that have the same parent and the same key, from the root down.

What makes a call tree of stacks, and another tree of a call tree: both say for each node where it
hangs and what it is, and get the merged nodes in a call tree's order.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
AnyInts = npt.NDArray[np.integer]
Int32s = npt.NDArray[np.int32]

_DENSE = 8  # a table of at most so many entries for each key is faster than sorting the keys
_SMALL_TABLE = 1 << 16
_NO_LINE = np.iinfo(np.int64).max


@dataclass(frozen=True)
class Merged:
    """The merged nodes, and what became of the others.

    Nodes are in breadth-first order, siblings adjacent and by key.
    """

    parent: Ints  # [n]; -1 for the root
    key: Ints  # [n]; -1 for the root
    place: Ints  # of each node before, its number now
    starts: list[int]  # the first node of each level, and one past the last node

    def __len__(self) -> int:
        return len(self.parent)

    def sums(self, values: AnyInts) -> Ints:
        """Return the sum over the nodes that each merged node is made of."""
        found: Ints = np.zeros(len(self), np.int64)
        found[self.place] = values
        # Most nodes are made of one. For the others it is dearer.
        place = self.place[self.several]
        found[place] = 0
        np.add.at(found, place, values[self.several])
        return found

    def totals(self, self_values: Ints) -> Ints:
        """Return each merged node's value with those of all nodes below it."""
        found: Ints = self_values.copy()
        for end, (above, first) in zip(self.starts[:1:-1], reversed(self._ends), strict=True):
            if len(first):
                found[above] += np.add.reduceat(found[:end], first)
        return found

    @cached_property
    def depths(self) -> npt.NDArray[np.int32]:
        """The depth of each merged node."""
        return np.repeat(np.arange(len(self.starts) - 1, dtype=np.int32), np.diff(self.starts))

    def lines(self, line: AnyInts, line_file: AnyInts, weights: Ints) -> tuple[Int32s, Int32s]:
        """Return each merged node's line and its file, see ``Lines``; 0 of one without weight."""
        weighs = weights > 0
        lines = Lines(self, np.where(weighs, line, 0), np.where(weighs, line_file, 0))
        return lines.of(weights[self.several])

    @cached_property
    def several(self) -> npt.NDArray[np.intp]:
        """The nodes before that share their merged node with others."""
        count = np.bincount(self.place, minlength=len(self))
        return np.flatnonzero(count[self.place] > 1)

    @cached_property
    def _ends(self) -> list[tuple[AnyInts, AnyInts]]:
        """Of each level: the nodes that have children there, and the first child of each."""
        found: list[tuple[AnyInts, AnyInts]] = []
        for begin, end in itertools.pairwise(self.starts[1:]):
            above = self.parent[begin:end]
            first = np.flatnonzero(np.diff(above, prepend=-1))
            found.append((above[first], begin + first))
        return found


class Lines:
    """Lines and files of merged nodes: those of the heaviest node that has one.

    Of several, the lowest: the order of the nodes depends on which others there are. Where none has
    a line, the file's number alone: it also says how the function runs.

    Args:
        merged: the merged nodes.
        line: of each node before; 0 for none.
        line_file: the file of that line, or how the function runs; 0 for none.
    """

    def __init__(self, merged: Merged, line: AnyInts, line_file: AnyInts) -> None:
        both = packed_lines(line, line_file)
        self._of_one = np.zeros(len(merged), np.int64)
        self._of_one[merged.place] = both
        several = merged.several
        self._place, self._both = merged.place[several], both[several]
        self._has_line, self._has_file = line[several] > 0, line_file[several] > 0

    def of(self, weights: Ints) -> tuple[Int32s, Int32s]:
        """Return line and file of each merged node.

        Args:
            weights: of the nodes that share their merged node with others.
        """
        both, place = self._of_one.copy(), self._place
        if len(place):
            most = np.zeros(len(both), np.int64)
            with_line = np.where(self._has_line, weights, 0)
            np.maximum.at(most, place, with_line)
            lacks = (most[place] == 0) & self._has_file
            if lacks.any():
                with_line = np.where(lacks, weights, with_line)
                np.maximum.at(most, place, with_line)
            which = np.flatnonzero((with_line > 0) & (with_line == most[place]))
            both[place] = _NO_LINE
            np.minimum.at(both, place[which], self._both[which])
            both[both == _NO_LINE] = 0
        return unpacked_lines(both)


def packed_lines(line: AnyInts, line_file: AnyInts) -> Ints:
    """Return lines and their files as one number each, ordered by file, then by line."""
    both: Ints = line_file.astype(np.int64) << 32 | line
    return both


def unpacked_lines(both: Ints) -> tuple[Int32s, Int32s]:
    """Return the lines and the files of ``packed_lines``."""
    return (both & 0xFFFFFFFF).astype(np.int32), (both >> 32).astype(np.int32)


def merge(
    parent: AnyInts, key: AnyInts, levels: Sequence[npt.NDArray[np.intp]], n_keys: int
) -> Merged:
    """Merge nodes.

    Args:
        parent: of each node; those of the first level are all the root.
        key: of each node, 0 … ``n_keys`` - 1; of nodes of the first level, nothing.
        levels: the nodes of each depth.
        n_keys: the number of keys.
    """
    place = np.zeros(len(parent), np.int64)
    parents, keys = [np.array((-1,), np.int64)], [np.array((-1,), np.int64)]
    starts, begin = [0, 1], 0
    for level in levels[1:]:
        end = starts[-1]
        # Counted from the first node of the level above, which keeps the table small.
        both = (place[parent[level]] - begin) * n_keys + key[level]
        distinct, which = distinct_keys(both, (end - begin) * n_keys)
        place[level] = end + which
        parents.append(begin + distinct // n_keys)
        keys.append(distinct % n_keys)
        begin = end
        starts.append(end + len(distinct))
    return Merged(np.concatenate(parents), np.concatenate(keys), place, starts)


def distinct_keys(keys: Ints, limit: int) -> tuple[Ints, AnyInts]:
    """Return the distinct keys in ascending order, and the place of each key among them.

    Args:
        keys: each at least 0 and below ``limit``.
        limit: the number of possible keys.
    """
    if limit > max(_SMALL_TABLE, _DENSE * len(keys)):
        # The keys of a tree's level, or of two, are sorted runs, of which a merge sort is fast.
        order = np.argsort(keys, kind="stable")
        in_order = keys[order]
        is_first = np.ones(len(keys), bool)
        is_first[1:] = in_order[1:] != in_order[:-1]
        found = np.empty(len(keys), np.int64)
        found[order] = np.cumsum(is_first) - 1
        return in_order[is_first], found
    seen = np.zeros(limit, bool)
    seen[keys] = True
    rank = np.cumsum(seen, dtype=np.int32)
    return np.flatnonzero(seen), rank[keys] - 1
