"""Make a call tree simpler or narrower: hide functions, fold runs, focus. Pure.

Weights are never lost unnoticed. A hidden or folded node's own weight goes to its caller's: all
sums stay. ``only``, ``focus`` and ``without`` keep a part of the stacks, whole, so that the root
has the weight of that part.

All work level by level with numpy: a tree of a million nodes takes some tenths of a second.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from .calltree import CallTree
from .expand import split_by
from .merge import merge
from .name_order import Order
from .tree_view import TreeIndex

Bools = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]


def hide(index: TreeIndex, hidden: Bools, order: Order) -> CallTree:
    """Leave out the nodes of functions; what they call hangs on their callers.

    Args:
        index: the tree.
        hidden: whether each function is hidden, by id.
        order: of the functions.
    """
    return _rebuilt(index, ~nodes_of(index, hidden), order)


def fold_runs(index: TreeIndex, folded: Bools, into: int, order: Order) -> CallTree:
    """Show functions that call each other as one box, such as all of a module.

    Args:
        index: the tree.
        folded: whether each function is folded, by id.
        into: id of the function that stands for them.
        order: of the functions.
    """
    tree = index.tree
    is_folded = nodes_of(index, folded)
    kept = ~(is_folded & is_folded[np.maximum(tree.parent, 0)])
    return _rebuilt(index, kept, order, function=np.where(is_folded, into, tree.function))


def fold_recursion(index: TreeIndex, order: Order) -> CallTree:
    """Show a function that calls itself directly as one box."""
    tree = index.tree
    kept = tree.function != tree.function[np.maximum(tree.parent, 0)]
    kept[0] = True
    return _rebuilt(index, kept, order)


def fold_chains(index: TreeIndex, order: Order) -> CallTree:
    """Show functions that do nothing but call the next one as one box: that of the first.

    ``chain_end`` of the result says where each box's chain ends.
    """
    tree = index.tree
    parent = np.maximum(tree.parent, 0)
    is_idle = tree.self_ns == 0
    for side in tree.sides:
        is_idle &= side == 0
    kept = ~((index.child_count == 1) & is_idle)[parent]
    kept[index.levels[0]] = True
    if len(index.levels) > 1:
        kept[index.levels[1]] = True  # the root is no function
    end = np.arange(index.node_count)
    top = end.copy()
    for level in index.levels[2:]:
        joined = np.arange(level.start, level.stop)[~kept[level]]
        top[joined] = top[parent[joined]]
        end[top[joined]] = joined
    function = tree.function[end]
    return _rebuilt(index, kept, order, chain_end=np.where(kept, function, -1))


def only(index: TreeIndex, chosen: Bools, order: Order) -> CallTree:
    """Keep the stacks that pass through functions, from their root."""
    return _with_weight(index, _inside(index, nodes_of(index, chosen)), order)


def without(index: TreeIndex, unwanted: Bools, order: Order) -> CallTree:
    """Leave out the stacks that pass through functions."""
    return without_nodes(index, nodes_of(index, unwanted), order)


def without_nodes(index: TreeIndex, unwanted: Bools, order: Order) -> CallTree:
    """Leave out the stacks that pass through nodes."""
    return _with_weight(index, ~_inside(index, unwanted), order)


def without_leaves(index: TreeIndex, unwanted: Bools, order: Order) -> CallTree:
    """Leave out the weight of functions themselves, but not of what they call."""
    return _with_weight(index, ~nodes_of(index, unwanted), order)


def focus(index: TreeIndex, chosen: Bools, order: Order) -> CallTree:
    """Keep functions and what they call; all their occurrences become one.

    Where they call themselves, the outermost call counts.
    """
    is_chosen = nodes_of(index, chosen)
    inside = _inside(index, is_chosen)
    inside[0] = True
    drops = ~inside
    drops[0] = True
    return _rebuilt(index, inside, order, roots=outermost(index, is_chosen), drops=drops)


def outermost(index: TreeIndex, chosen: Bools) -> Bools:
    """Return which of the chosen nodes are not below another one."""
    found: Bools = chosen & ~_inside(index, chosen)[np.maximum(index.tree.parent, 0)]
    return found


def nodes_of(index: TreeIndex, functions: Bools) -> Bools:
    """Return which nodes are of functions; never the root."""
    found = np.zeros(index.node_count, bool)
    found[1:] = functions[index.tree.function[1:]]
    return found


def _inside(index: TreeIndex, chosen: Bools) -> Bools:
    """Return which nodes are chosen or below a chosen one."""
    inside: Bools = chosen.copy()
    parent = index.tree.parent
    for level in index.levels[1:]:
        inside[level] |= inside[parent[level]]
    return inside


def _with_weight(index: TreeIndex, counts: Bools, order: Order) -> CallTree:
    """Keep the own weight of some nodes, and the nodes that lead to it."""
    tree = index.tree
    thinned = replace(
        tree,
        self_ns=np.where(counts, tree.self_ns, 0),
        sides=tuple(np.where(counts, side, 0) for side in tree.sides),
    )
    has_weight = thinned.self_ns > 0
    for side in thinned.sides:
        has_weight |= side > 0
    for level in index.levels[:0:-1]:
        above = tree.parent[level][has_weight[level]]
        has_weight[above] = True
    has_weight[0] = True
    return _rebuilt(index, has_weight, order, tree=thinned, drops=~has_weight)


def _rebuilt(
    index: TreeIndex,
    kept: Bools,
    order: Order,
    *,
    tree: CallTree | None = None,
    function: npt.NDArray[np.int32] | None = None,
    roots: Bools | None = None,
    drops: Bools | None = None,
    chain_end: npt.NDArray[np.int32] | None = None,
) -> CallTree:
    """Return the tree of the kept nodes.

    Args:
        index: the tree before.
        kept: its nodes that stay. The weight of others goes to the nearest kept node above.
        order: of the functions.
        tree: has the weights, if not ``index``.
        function: of each node, if not that of the tree.
        roots: nodes that hang on the root.
        drops: nodes that are not kept, and whose weight goes.
        chain_end: see ``CallTree``; of each node.
    """
    tree = tree or index.tree
    if index.node_count == 1:
        return tree
    function = tree.function if function is None else function
    parent = np.maximum(tree.parent, 0).astype(np.int64)
    up = np.arange(index.node_count)  # the nearest kept node, itself or above
    depth = np.zeros(index.node_count, np.int32)
    for level in index.levels[1:]:
        above = up[parent[level]]
        if roots is not None:
            above = np.where(roots[level], 0, above)
            parent[level] = above
        up[level] = np.where(kept[level], up[level], above)
        depth[level] = depth[above] + kept[level]
    nodes = np.flatnonzero(kept)
    number = np.zeros(index.node_count, np.int64)
    number[nodes] = np.arange(len(nodes))
    rank = order.rank[function[nodes]]
    merged = merge(number[up[parent[nodes]]], rank, split_by(depth[nodes]), len(order.rank))
    place = merged.place[number[up]]  # of all nodes

    def sums(values: Ints) -> Ints:
        found = np.zeros(len(merged), np.int64)
        np.add.at(found, place, values if drops is None else np.where(drops, 0, values))
        return found

    self_ns = sums(tree.self_ns)
    line, line_file = merged.lines(tree.line[nodes], tree.line_file[nodes], tree.total_ns[nodes])
    ends = None
    if chain_end is not None:
        ends = np.full(len(merged), -1, np.int32)
        ends[merged.place] = chain_end[nodes]
    return CallTree(
        parent=merged.parent.astype(np.int32),
        function=functions_at(merged.key, order),
        self_ns=self_ns,
        total_ns=merged.totals(self_ns),
        line=line,
        line_file=line_file,
        depth=merged.depths,
        functions=tree.functions,
        line_files=tree.line_files,
        line_tiers=tree.line_tiers,
        sides=tuple(sums(side) for side in tree.sides),
        chain_end=ends,
    )


def functions_at(ranks: Ints, order: Order) -> npt.NDArray[np.int32]:
    """Return the functions at ranks; -1 at -1, which is the root's."""
    found = np.full(len(ranks), -1, np.int32)
    found[ranks >= 0] = order.by_rank[ranks[ranks >= 0]]
    return found
