"""Select the visible part of a call tree: boxes of at least half a pixel, matches, top functions.

Pure functions over ``CallTree``, vectorised: a view of a tree with a million nodes takes
milliseconds, and its size does not grow with the recording. They rely on the tree's breadth-first
order: the children of a node are adjacent, and those of later nodes come later.

Horizontal positions are nanoseconds from the left edge of the whole tree. They do not depend on the
zoom, so the page can zoom within the boxes that it has. Children come from left to right in the
tree's order (by name). A node's self time is the empty space at its right end.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from ..model import MANAGED_KINDS, FrameKind
from ..symbols.interpreters.function_origin import origin_of
from .calltree import CallTree

Bools = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]

MIN_BOX_PX = 0.5  # narrower boxes are invisible; a run of them is drawn as one box
# Wider runs are split: zoomed to the width of a window, their parts get much wider. So each box is
# drawn after a few zooms.
MAX_RUN_PX = 80.0
# Of a parent that takes so much of the width, invisible runs have boxes, too: one can zoom no
# further into it.
BIG_PARENT = 0.25


@dataclass(frozen=True)
class Boxes:
    """Boxes in columns, row by row and from left to right; the ancestors of the zoom come first.

    A box without a node represents a run: neighbours that are each too narrow to draw. ``hidden``
    is their number, ``total_ns`` their weight together.
    """

    node: Ints  # index into the tree, -1 for a run
    function: Ints  # index into the tree's functions, -1 for the root and for runs
    line: Ints  # 0 if unknown
    line_file: Ints  # index into the tree's line_files, 0 for the function's own file
    parent: Ints  # index of another box, -1 for the root's box
    row: Ints  # depth in the tree, 0 for the root
    x_ns: Ints  # left edge
    total_ns: Ints
    self_ns: Ints  # 0 for runs
    hidden: Ints  # number of nodes in a run, 0 for an ordinary box
    first_node: Ints  # index into the tree; of a run, the first of its nodes, which are neighbours
    zoom_box: int  # index of the zoomed box
    deepest_row: int  # the last row with boxes, even if it is beyond the requested last row

    def of_nodes(self, values: npt.NDArray[np.integer], of_run: int) -> Ints:
        """Return a value of each box's node, and ``of_run`` for runs."""
        return np.where(self.node < 0, of_run, values[self.node]).astype(np.int64)


class TreeIndex:
    """A tree with the indexes that make queries fast. Safe to share between threads."""

    def __init__(self, tree: CallTree) -> None:
        self.tree = tree
        counts = np.bincount(tree.parent[1:], minlength=len(tree.parent)).astype(np.int64)
        self.child_count: Ints = counts
        self.first_child: Ints = 1 + np.cumsum(counts) - counts

    @property
    def node_count(self) -> int:
        """The number of nodes, including the root."""
        return len(self.tree.parent)

    @cached_property
    def used_functions(self) -> list[int]:
        """The functions that occur in the tree, by id."""
        used: list[int] = np.flatnonzero(np.bincount(self.tree.function[1:])).tolist()
        return used

    @cached_property
    def has_managed(self) -> bool:
        """True if the profile has functions of Python, Java, JavaScript or Ruby, shown or not."""
        return any(function.kind in MANAGED_KINDS for function in self.tree.functions)

    def origin(self, function: int) -> str:
        """Return whose code a function is (the value of an ``Origin``), by its id."""
        return origin_of(self.tree.functions[function]).value

    @cached_property
    def is_nameless(self) -> Bools:
        """Whether each function has no name; the last is for the root's -1."""
        return self._of_kind(FrameKind.UNKNOWN)

    @cached_property
    def is_syscall(self) -> Bools:
        """Whether each function is a system call; the last is for the root's -1."""
        return self._of_kind(FrameKind.SYSCALL)

    def _of_kind(self, kind: FrameKind) -> Bools:
        return np.array([each.kind is kind for each in self.tree.functions] + [False])

    def children(self, node: int) -> range:
        """Return the children of a node, left to right."""
        first = int(self.first_child[node])
        return range(first, first + int(self.child_count[node]))

    @cached_property
    def levels(self) -> list[slice]:
        """The nodes of each depth. Breadth-first order makes each a slice."""
        starts = np.flatnonzero(np.diff(self.tree.depth, prepend=-1))
        ends = [*starts[1:].tolist(), self.node_count]
        return [slice(a, b) for a, b in zip(starts.tolist(), ends, strict=True)]

    @cached_property
    def preorder(self) -> tuple[Ints, Ints]:
        """Each node's rank in depth-first order, and one past the rank of its last descendant.

        ``b`` is ``a`` or below it if ``rank[a] <= rank[b] < end[a]``.
        """
        parent = self.tree.parent
        size = self.totals(np.ones(self.node_count, np.int64))
        before = _sum_of_elder_siblings(self, size)
        rank = np.zeros(self.node_count, np.int64)
        for level in self.levels[1:]:
            rank[level] = rank[parent[level]] + 1 + before[level]
        return rank, rank + size

    @cached_property
    def x_in_parent_ns(self) -> Ints:
        """The left edge of each node, relative to its parent's."""
        return _sum_of_elder_siblings(self, self.tree.total_ns)

    @cached_property
    def depth_first(self) -> Ints:
        """The nodes in depth-first order: the inverse of the rank."""
        order = np.empty(self.node_count, np.int64)
        order[self.preorder[0]] = np.arange(self.node_count)
        return order

    def totals(self, self_values: Ints) -> Ints:
        """Return each node's value with those of all nodes below it."""
        found: Ints = self_values.astype(np.int64)
        has_children = self.child_count > 0
        for level, below in zip(self.levels[-2::-1], self.levels[:0:-1], strict=True):
            above = level.start + np.flatnonzero(has_children[level])
            found[above] += np.add.reduceat(found[: below.stop], self.first_child[above])
        return found

    @cached_property
    def side_totals(self) -> list[Ints]:
        """Of a joined tree (see comparison), each node's weight here and there."""
        return [self.totals(side) for side in self.tree.sides]

    def subtree(self, node: int) -> Ints:
        """Return a node and all its descendants, depth first."""
        rank, end = self.preorder
        return self.depth_first[int(rank[node]) : int(end[node])]


def _sum_of_elder_siblings(index: TreeIndex, values: npt.NDArray[np.integer]) -> Ints:
    """Return for each node the sum of ``values`` over the siblings left of it."""
    before: Ints = np.cumsum(values, dtype=np.int64) - values
    parents = index.tree.parent[1:]
    before[1:] -= before[index.first_child[parents]]
    before[0] = 0
    return before


def resolve_path(index: TreeIndex, path: Sequence[int | Collection[int]]) -> list[int]:
    """Return the nodes along a path of functions: the root, then as far as the path exists.

    Each function is an id, or several ids of which the heaviest node's counts.

    A newer tree has other node numbers, and new names may have changed some functions. The longest
    prefix that still exists is the best match.
    """
    nodes = [0]
    for each in path:
        children = index.children(nodes[-1])
        function = index.tree.function[children.start : children.stop]
        if isinstance(each, int):
            found = np.flatnonzero(function == each)
        else:
            found = np.flatnonzero(np.isin(function, np.fromiter(each, np.int64)))
        if not len(found):
            break
        heaviest = found[np.argmax(index.tree.total_ns[children.start + found])]
        nodes.append(children.start + int(heaviest))
    return nodes


def runs_of(tree: CallTree, boxes: Boxes) -> tuple[Ints, Ints, Ints]:
    """Return the boxes that are runs, and the functions of the first and last node of each."""
    runs = np.flatnonzero(boxes.hidden)
    first = boxes.first_node[runs]
    ends = tree.function[first], tree.function[first + boxes.hidden[runs] - 1]
    return runs, ends[0].astype(np.int64), ends[1].astype(np.int64)


def resolve_run(index: TreeIndex, node: int, run: tuple[int, int]) -> range | None:
    """Return the children of a node from one function to another, given by their ids.

    Returns:
        None if the node has none of either function.
    """
    children = index.children(node)
    functions = index.tree.function[children.start : children.stop]
    found = np.flatnonzero(np.isin(functions, run))
    if not len(found):
        return None
    return range(children.start + int(found[0]), children.start + int(found[-1]) + 1)


def ancestors(tree: CallTree, node: int) -> list[int]:
    """Return the nodes from the root to ``node``, both included."""
    chain = [node]
    while (node := int(tree.parent[node])) >= 0:
        chain.append(node)
    return chain[::-1]


def visible_boxes(
    index: TreeIndex,
    zoom: int,
    width_px: float,
    last_row: int,
    min_px: float = MIN_BOX_PX,
    run: range | None = None,
) -> Boxes:
    """Return the boxes to draw when ``zoom`` is as wide as the canvas.

    Time and size depend only on the canvas: a row has at most ``2 * width_px / min_px`` boxes.

    Args:
        index: the tree.
        zoom: the node that fills the width; its ancestors have boxes, too.
        width_px: width of the canvas in device pixels.
        last_row: the deepest row to return (the page requests the rows that it can scroll to soon).
        min_px: minimum width of a box.
        run: children of ``zoom`` that fill the width, in place of all of it.
    """
    tree = index.tree
    chain = np.array(ancestors(tree, zoom), np.int64)
    count = len(chain)
    # At least 1: a node without weight is never drawn.
    whole = tree.total_ns[zoom] if run is None else tree.total_ns[run.start : run.stop].sum()
    least_ns = max(1.0, min_px * float(whole) / max(width_px, 1.0))
    scale = _Scale(float(whole), least_ns, least_ns * MAX_RUN_PX / min_px)
    row = _Row(
        node=chain,
        parent=np.arange(-1, count - 1, dtype=np.int64),
        x_ns=np.cumsum(index.x_in_parent_ns[chain]),
        total_ns=tree.total_ns[chain],
        hidden=np.zeros(count, np.int64),
        first_node=chain,
    )
    rows = [row]
    depths = [np.arange(count, dtype=np.int64)]
    zoom_box, depth = count - 1, count - 1
    row = row.take(np.array([zoom_box]))
    box = np.array([zoom_box])  # the index of each box of the row
    while (below := _row_below(index, row, box, scale, run)) is not None:
        row, depth, run = below, depth + 1, None
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
        first_node=np.concatenate([row.first_node for row in rows]),
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
    first_node: Ints

    def take(self, at: Ints | Bools) -> _Row:
        return _Row(
            self.node[at],
            self.parent[at],
            self.x_ns[at],
            self.total_ns[at],
            self.hidden[at],
            self.first_node[at],
        )


@dataclass(frozen=True)
class _Scale:
    """What the weights of boxes are compared with."""

    whole_ns: float  # the full width
    least_ns: float  # of a box
    most_ns: float  # of a run


def _row_below(
    index: TreeIndex, row: _Row, box: Ints, scale: _Scale, only: range | None = None
) -> _Row | None:
    """Return the boxes of the next deeper row; None if nothing there is wide enough.

    Args:
        index: the tree.
        row: the boxes of one row.
        box: the index of each box of ``row``, for its children's ``parent``.
        scale: of the view.
        only: the only children, of the one box of ``row``; None for all.
    """
    expandable = row.node >= 0
    above, above_x, box = row.node[expandable], row.x_ns[expandable], box[expandable]
    counts, first_child = index.child_count[above], index.first_child[above]
    if only is not None:
        counts, first_child = np.array([len(only)]), np.array([only.start])
    group = np.repeat(np.arange(len(above)), counts)  # per child, the position of its parent
    if not len(group):
        return None
    starts = np.cumsum(counts) - counts
    kids = np.arange(len(group)) + (first_child - starts)[group]
    total = index.tree.total_ns[kids]
    # Each wide child is a box. A narrow one joins its left neighbour if that is a narrow sibling.
    wide = total >= scale.least_ns
    joins = ~wide[1:] & ~wide[:-1] & (group[1:] == group[:-1])
    begins = _split(np.concatenate(([True], ~joins)), np.where(wide, 0, total), scale.most_ns)
    length = np.diff(np.append(begins, len(kids)))
    run_total = np.add.reduceat(total, begins)
    is_big = index.tree.total_ns[above] >= BIG_PARENT * scale.whole_ns
    shown = run_total >= np.where(is_big[group[begins]], 1.0, scale.least_ns)
    if not shown.any():
        return None
    begins, length = begins[shown], length[shown]
    first, is_run = kids[begins], length > 1
    return _Row(
        node=np.where(is_run, -1, first),
        parent=box[group[begins]],
        x_ns=above_x[group[begins]] + index.x_in_parent_ns[first],
        total_ns=run_total[shown],
        hidden=np.where(is_run, length, 0),
        first_node=first,
    )


def _split(is_first: Bools, narrow_ns: Ints, most_ns: float) -> Ints:
    """Return where runs begin when each heavier than ``most_ns`` is split into even parts.

    Args:
        is_first: for each child in a row, whether a box or a run begins there.
        narrow_ns: its weight; 0 for one that has a box of its own.
    """
    begins = np.flatnonzero(is_first)
    weight = np.add.reduceat(narrow_ns, begins)
    if not (weight > most_ns).any():
        return begins
    run = np.cumsum(is_first) - 1
    part_ns = np.maximum(1.0, weight / np.ceil(np.maximum(weight, 1.0) / most_ns))
    before = np.cumsum(narrow_ns) - narrow_ns
    part = np.floor((before - before[begins][run] + narrow_ns / 2) / part_ns[run])
    return np.flatnonzero(is_first | (np.diff(part, prepend=-1.0) != 0))
