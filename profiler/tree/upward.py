"""Turn a call tree over: callers below what they call. Pure, vectorised.

Each place where weight ends, or each call of a chosen function, is a chain that leads from it to
the root. Chains that begin alike are merged, row by row.

A tree of a million nodes has tens of millions of such nodes, few of them wide enough to see. So
only nodes with some share of the whole are expanded; the others say so (``is_cut``) and hold their
chains' weight as their own. For a deeper look give a ``path``: then the nodes along it are
expanded, and those below it that have some share of its end. Sums stay, whatever is cut.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np
import numpy.typing as npt

from .calltree import CallTree
from .merge import distinct_keys
from .name_order import Order
from .transforms import functions_at, nodes_of, outermost
from .tree_view import TreeIndex

Bools = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]

LEAST_SHARE = 1 / 20_000  # half a pixel of a canvas with 10 000


def invert(
    index: TreeIndex,
    order: Order,
    path: Sequence[Collection[int]] = (),
    least_share: float = LEAST_SHARE,
) -> CallTree:
    """Return the tree that begins with the functions in which time was spent.

    Args:
        index: the tree.
        order: of the functions.
        path: for each node of a path from the new root, the functions that it may be of.
        least_share: nodes with less of the whole, or of the path's end, are not expanded.
    """
    tree = index.tree
    has_weight = tree.self_ns > 0
    for side in tree.sides:
        has_weight |= side > 0
    has_weight[0] = False
    leaves = np.flatnonzero(has_weight)
    sides = [side[leaves] for side in tree.sides]
    upward = _Upward(index, order, leaves, tree.self_ns[leaves], sides)
    # What the root has of its own, which is mostly nothing, stays with the root.
    upward.ends[0][0] = tree.self_ns[0]
    upward.totals[0][0] += tree.self_ns[0]
    for column, side in zip(upward.side_ends, tree.sides, strict=True):
        column[0][0] = side[0]
    return upward.build(path, least_share)


def callers(
    index: TreeIndex,
    chosen: Bools,
    order: Order,
    path: Sequence[Collection[int]] = (),
    least_share: float = LEAST_SHARE,
) -> CallTree:
    """Return the tree of a function's callers; the function itself is below the root.

    Each stack counts once: where the function calls itself, with its outermost call. So the root's
    weight is that of ``transforms.focus``.

    Args:
        index: the tree.
        chosen: whether each function is one of those, by id.
        order: of the functions.
        path: as for ``invert``.
        least_share: as for ``invert``.
    """
    calls = np.flatnonzero(outermost(index, nodes_of(index, chosen)))
    sides = [index.totals(side)[calls] for side in index.tree.sides]
    weights = index.tree.total_ns[calls]
    return _Upward(index, order, calls, weights, sides).build(path, least_share)


class _Upward:
    """One tree in the making, a row at a time; chains and rows are columns of equal length."""

    def __init__(
        self, index: TreeIndex, order: Order, nodes: Ints, weights: Ints, sides: list[Ints]
    ) -> None:
        self.tree, self.order = index.tree, order
        self.at, self.weights, self.sides = nodes, weights, sides  # of each chain
        self.row = np.zeros(len(nodes), np.int64)  # its node among those of the last row
        self.whole = int(weights.sum())
        self.parents = [np.array((-1,), np.int64)]
        self.keys = [np.array((-1,), np.int64)]
        self.totals = [np.array((self.whole,), np.int64)]
        self.ends = [np.zeros(1, np.int64)]  # weight that ends in each node
        self.side_ends = [[np.zeros(1, np.int64)] for _ in sides]
        self.cuts = [np.zeros(1, bool)]
        self.first = [np.zeros(1, np.int64)]  # a node of the tree before, for its line
        self.count = 1

    def build(self, path: Sequence[Collection[int]], least_share: float) -> CallTree:
        rest = list(path)
        least = max(1.0, self.whole * least_share)
        begin = 0  # the first node of the row above
        while len(self.at):
            key, functions = self._next_row(begin)
            totals = np.zeros(len(key), np.int64)
            np.add.at(totals, self.row, self.weights)
            is_open = totals >= least
            if rest:
                mine = np.isin(functions, np.fromiter(rest.pop(0), np.int64))
                if mine.any():
                    on_path = int(np.argmax(np.where(mine, totals, -1)))
                    is_open = np.arange(len(key)) == on_path
                    least = max(1.0, float(totals[on_path]) * least_share)
                else:
                    rest.clear()
            begin = self.count
            self.count += len(key)
            self._end_chains(is_open, len(key))
            self.totals.append(totals)
        return self._tree()

    def _next_row(self, begin: int) -> tuple[Ints, Ints]:
        """Merge the chains that are in the same node and go on with the same function."""
        n_keys = len(self.order.rank)
        both = self.row * n_keys + self.order.rank[self.tree.function[self.at]]
        limit = (int(self.row.max()) + 1) * n_keys
        distinct, row = distinct_keys(both, limit)
        first = np.zeros(len(distinct), np.int64)
        first[row] = self.at
        self.row = row.astype(np.int64)
        self.first.append(first)
        key = distinct % n_keys
        self.parents.append(begin + distinct // n_keys)
        self.keys.append(key)
        return key, functions_at(key, self.order).astype(np.int64)

    def _end_chains(self, is_open: Bools, count: int) -> None:
        """End the chains that are at the root, or in a node that is not expanded."""
        above = self.tree.parent[self.at]
        goes_on = is_open[self.row] & (above > 0)
        ended = ~goes_on
        self.ends.append(_sums(self.row[ended], self.weights[ended], count))
        for column, side in zip(self.side_ends, self.sides, strict=True):
            column.append(_sums(self.row[ended], side[ended], count))
        cut = np.zeros(count, bool)
        cut[self.row[~is_open[self.row] & (above > 0)]] = True
        self.cuts.append(cut)
        self.at, self.row = above[goes_on].astype(np.int64), self.row[goes_on]
        self.weights = self.weights[goes_on]
        self.sides = [side[goes_on] for side in self.sides]

    def _tree(self) -> CallTree:
        before = self.tree
        first = np.concatenate(self.first)
        line, line_file = before.line[first], before.line_file[first]
        return CallTree(
            parent=np.concatenate(self.parents).astype(np.int32),
            function=functions_at(np.concatenate(self.keys), self.order),
            self_ns=np.concatenate(self.ends),
            total_ns=np.concatenate(self.totals),
            line=line,
            line_file=line_file,
            depth=np.repeat(
                np.arange(len(self.parents), dtype=np.int32), [len(row) for row in self.parents]
            ),
            functions=before.functions,
            line_files=before.line_files,
            line_tiers=before.line_tiers,
            sides=tuple(np.concatenate(column) for column in self.side_ends),
            is_cut=np.concatenate(self.cuts),
        )


def _sums(at: Ints, values: Ints, count: int) -> Ints:
    found = np.zeros(count, np.int64)
    np.add.at(found, at, values)
    return found
