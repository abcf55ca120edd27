"""What of a call tree is worth drawing: boxes of at least half a pixel, search sums, top functions.

Pure functions over ``CallTree``, vectorised, so that a view of a tree with a million nodes costs
milliseconds and does not grow with the recording. Relies on the tree's order: breadth first, so
that the children of a node lie next to each other and those of later nodes come later.

Horizontal positions are nanoseconds from the left edge of the whole tree: they do not depend on
what is zoomed to, so that a page can zoom by itself in what it has. Children come from left to
right in the tree's order (by name), a node's own time is the empty stretch at its right end.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from ..model import Function
from .calltree import CallTree

Bools = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]

MIN_BOX_PX = 0.5  # narrower boxes cannot be seen, let alone hit; runs of them are drawn as one


@dataclass(frozen=True)
class Boxes:
    """Boxes in columns, row by row and from left to right; the ancestors of the zoom come first.

    A box without a node stands for a run of neighbours each too narrow to draw: ``hidden`` says how
    many, ``total_ns`` what they weigh together.
    """

    node: Ints  # index into the tree, -1 for a run of narrow ones
    function: Ints  # index into the tree's functions, -1 for the root and for runs
    line: Ints  # 0 if not known
    line_file: Ints  # index into the tree's line_files, 0 for the function's own file
    parent: Ints  # index of another box, -1 for the root's
    row: Ints  # depth in the tree, 0 for the root
    x_ns: Ints  # left edge
    total_ns: Ints
    self_ns: Ints  # 0 for runs
    hidden: Ints  # how many narrow neighbours the box stands for, 0 for an ordinary box
    zoom_box: int  # index of the box that is zoomed to
    deepest_row: int  # of all rows that have boxes, also those beyond the last row asked for


@dataclass(frozen=True)
class Matches:
    """What a search finds below a node. Weights count each nanosecond once, however deep the
    recursion: only matches outside any other match add to the sum."""

    nodes: Ints  # the outermost matches, heaviest first
    total_ns: int


@dataclass(frozen=True)
class TopFunctions:
    """Functions below a node in columns, heaviest first; recursion is counted once."""

    function: Ints  # index into the tree's functions
    self_ns: Ints
    total_ns: Ints
    function_count: int  # all functions there are, also those cut off by the limit


class TreeIndex:
    """A tree with what the queries need to be fast. Safe to share between threads."""

    def __init__(self, tree: CallTree) -> None:
        self.tree = tree
        counts = np.bincount(tree.parent[1:], minlength=len(tree.parent)).astype(np.int64)
        self.child_count: Ints = counts
        self.first_child: Ints = 1 + np.cumsum(counts) - counts

    @property
    def node_count(self) -> int:
        """Nodes including the root."""
        return len(self.tree.parent)

    def children(self, node: int) -> range:
        """The children of a node, left to right."""
        first = int(self.first_child[node])
        return range(first, first + int(self.child_count[node]))

    @cached_property
    def _levels(self) -> list[slice]:
        """The nodes of each depth. Breadth-first order makes each a slice."""
        starts = np.flatnonzero(np.diff(self.tree.depth, prepend=-1))
        ends = [*starts[1:].tolist(), self.node_count]
        return [slice(a, b) for a, b in zip(starts.tolist(), ends, strict=True)]

    @cached_property
    def preorder(self) -> tuple[Ints, Ints]:
        """Each node's rank in depth-first order and one past the rank of its last descendant.

        Below ``a`` means ``first[a] <= first[b] < end[a]``: ancestry as a comparison of numbers.
        """
        parent = self.tree.parent
        size = np.ones(self.node_count, np.int64)
        for level in reversed(self._levels[1:]):
            np.add.at(size, parent[level], size[level])
        before = _sum_of_elder_siblings(self, size)
        rank = np.zeros(self.node_count, np.int64)
        for level in self._levels[1:]:
            rank[level] = rank[parent[level]] + 1 + before[level]
        return rank, rank + size

    @cached_property
    def x_in_parent_ns(self) -> Ints:
        """The left edge of each node, counted from its parent's."""
        return _sum_of_elder_siblings(self, self.tree.total_ns)

    @cached_property
    def depth_first(self) -> Ints:
        """The nodes in depth-first order: the inverse of the rank."""
        order = np.empty(self.node_count, np.int64)
        order[self.preorder[0]] = np.arange(self.node_count)
        return order

    def subtree(self, node: int) -> Ints:
        """A node and all its descendants, depth first."""
        rank, end = self.preorder
        return self.depth_first[int(rank[node]) : int(end[node])]


def _sum_of_elder_siblings(index: TreeIndex, values: npt.NDArray[np.integer]) -> Ints:
    """Per node, the sum of ``values`` over the siblings left of it."""
    before: Ints = np.cumsum(values, dtype=np.int64) - values
    parents = index.tree.parent[1:]
    before[1:] -= before[index.first_child[parents]]
    before[0] = 0
    return before


def resolve_path(index: TreeIndex, path: Sequence[int]) -> list[int]:
    """The nodes along a path of function ids, from the root (always there) to the longest match.

    A tree that was built anew has other node numbers, and names that became known meanwhile have
    changed some functions; the longest prefix that still exists is the best that can be kept.
    """
    nodes = [0]
    for function in path:
        for child in index.children(nodes[-1]):
            if index.tree.function[child] == function:
                nodes.append(child)
                break
        else:
            break
    return nodes


def ancestors(tree: CallTree, node: int) -> list[int]:
    """The nodes from the root to ``node``, both included."""
    chain = [node]
    while (node := int(tree.parent[node])) >= 0:
        chain.append(node)
    return chain[::-1]


def visible_boxes(
    index: TreeIndex, zoom: int, width_px: float, last_row: int, min_px: float = MIN_BOX_PX
) -> Boxes:
    """The boxes to draw when ``zoom`` is as wide as the canvas.

    Work and answer depend on the canvas only: each row holds at most ``2 * width_px / min_px``.

    Args:
        zoom: the node that fills the width; its ancestors are boxes too.
        width_px: width of the canvas in the pixels that count, i.e. device pixels.
        last_row: deeper rows are not returned (a page asks for what it can scroll to soon).
        min_px: what a box must measure to be drawn.
    """
    tree = index.tree
    chain = np.array(ancestors(tree, zoom), np.int64)
    count = len(chain)
    # At least 1: what weighs nothing is never drawn.
    least_ns = max(1.0, min_px * float(tree.total_ns[zoom]) / max(width_px, 1.0))
    row = _Row(
        node=chain,
        parent=np.arange(-1, count - 1, dtype=np.int64),
        x_ns=np.cumsum(index.x_in_parent_ns[chain]),
        total_ns=tree.total_ns[chain],
        hidden=np.zeros(count, np.int64),
    )
    rows = [row]
    depths = [np.arange(count, dtype=np.int64)]
    zoom_box, depth = count - 1, count - 1
    row = row.take(np.array([zoom_box]))
    box = np.array([zoom_box])  # the number of each box of the row
    while (below := _row_below(index, row, box, least_ns)) is not None:
        row, depth = below, depth + 1
        box = np.arange(count, count + len(row.node))
        count += len(row.node)
        if depth <= last_row:
            rows.append(row)
            depths.append(np.full(len(row.node), depth, np.int64))
    node = np.concatenate([row.node for row in rows])
    is_run = node < 0
    return Boxes(
        node=node,
        function=np.where(is_run, -1, tree.function[node]),
        line=np.where(is_run, 0, tree.line[node]),
        line_file=np.where(is_run, 0, tree.line_file[node]),
        self_ns=np.where(is_run, 0, tree.self_ns[node]),
        parent=np.concatenate([row.parent for row in rows]),
        row=np.concatenate(depths),
        x_ns=np.concatenate([row.x_ns for row in rows]),
        total_ns=np.concatenate([row.total_ns for row in rows]),
        hidden=np.concatenate([row.hidden for row in rows]),
        zoom_box=zoom_box,
        deepest_row=depth,
    )


@dataclass(frozen=True)
class _Row:
    """Boxes of one row, columns as in ``Boxes``."""

    node: Ints
    parent: Ints
    x_ns: Ints
    total_ns: Ints
    hidden: Ints

    def take(self, at: Ints | Bools) -> _Row:
        return _Row(
            self.node[at], self.parent[at], self.x_ns[at], self.total_ns[at], self.hidden[at]
        )


def _row_below(index: TreeIndex, row: _Row, box: Ints, least_ns: float) -> _Row | None:
    """The boxes on top of a row of boxes, or None if nothing there is wide enough.

    Args:
        box: the number of each box of ``row``, for its children's ``parent``.
    """
    expandable = row.node >= 0
    above, above_x, box = row.node[expandable], row.x_ns[expandable], box[expandable]
    counts = index.child_count[above]
    group = np.repeat(np.arange(len(above)), counts)  # per child, which of the boxes above is its
    if not len(group):
        return None
    starts = np.cumsum(counts) - counts
    kids = np.arange(len(group)) + (index.first_child[above] - starts)[group]
    total = index.tree.total_ns[kids]
    wide = total >= least_ns
    # Each wide child is a box; narrow ones join a narrow left neighbour, unless it is a cousin.
    joins = ~wide[1:] & ~wide[:-1] & (group[1:] == group[:-1])
    begins = np.flatnonzero(np.concatenate(([True], ~joins)))
    length = np.diff(np.append(begins, len(kids)))
    run_total = np.add.reduceat(total, begins)
    shown = run_total >= least_ns
    if not shown.any():
        return None
    begins = begins[shown]
    first, is_wide = kids[begins], wide[begins]
    return _Row(
        node=np.where(is_wide, first, -1),
        parent=box[group[begins]],
        x_ns=above_x[group[begins]] + index.x_in_parent_ns[first],
        total_ns=run_total[shown],
        hidden=np.where(is_wide, 0, length[shown]),
    )


def match_functions(tree: CallTree, matches: Callable[[Function], bool]) -> Bools:
    """Ask a predicate about each function the tree uses; per function of the tree. One with lines
    in other files matches also if it would with such a file for its own.
    """
    used = np.zeros(len(tree.functions), np.bool_)
    used[tree.function[tree.function >= 0]] = True
    for function in np.flatnonzero(used).tolist():
        used[function] = matches(tree.functions[function])
    elsewhere = np.flatnonzero(tree.line_file)
    pairs = np.stack((tree.function[elsewhere], tree.line_file[elsewhere]), axis=1)
    for function, file in np.unique(pairs, axis=0).tolist():
        if not used[function]:
            used[function] = matches(replace(tree.functions[function], file=tree.line_files[file]))
    return used


def find_matches(index: TreeIndex, matching: Bools, below: int = 0) -> Matches:
    """The nodes below ``below`` (itself included) whose function matches.

    Args:
        matching: per function of the tree.
    """
    nodes = index.subtree(below)
    function = index.tree.function[nodes]
    found = nodes[matching[function] & (function >= 0)]  # depth first, hence ascending ranks
    if len(found):
        rank, end = index.preorder
        ends = np.maximum.accumulate(end[found])
        found = found[rank[found] >= np.concatenate(([0], ends[:-1]))]
    total = index.tree.total_ns[found]
    return Matches(found[np.argsort(-total, kind="stable")], int(total.sum()))


def top_functions(
    index: TreeIndex,
    below: int,
    limit: int,
    *,
    by_self: bool = True,
    matching: Bools | None = None,
) -> TopFunctions:
    """The heaviest functions of the subtree below ``below`` (itself included).

    A function's total counts the time with it anywhere on the stack, once: of the nodes of one
    function, those inside another of its nodes are left out. Depth-first ranks make that test a
    running maximum.
    """
    tree = index.tree
    nodes = index.subtree(below)
    nodes = nodes[tree.function[nodes] >= 0]
    if matching is not None:
        nodes = nodes[matching[tree.function[nodes]]]
    nodes = nodes[np.argsort(tree.function[nodes], kind="stable")]  # ranks ascend within each
    if not len(nodes):
        none = np.empty(0, np.int64)
        return TopFunctions(none, none, none, 0)
    starts = np.flatnonzero(np.diff(tree.function[nodes], prepend=-1))
    function = tree.function[nodes[starts]].astype(np.int64)
    # One running maximum for all functions: each gets ranks above all of the one before.
    rank, end = index.preorder
    lift = np.repeat(np.arange(len(starts)), np.diff(np.append(starts, len(nodes))))
    lift *= index.node_count + 1
    ends = np.maximum.accumulate(end[nodes] + lift)
    outermost = rank[nodes] + lift >= np.concatenate(([0], ends[:-1]))
    self_ns = np.add.reduceat(tree.self_ns[nodes], starts)
    total_ns = np.add.reduceat(np.where(outermost, tree.total_ns[nodes], 0), starts)
    first, second = (self_ns, total_ns) if by_self else (total_ns, self_ns)
    order = np.lexsort((-second, -first))[:limit]
    return TopFunctions(function[order], self_ns[order], total_ns[order], len(starts))
