"""Order the children of a call tree's nodes as a table lists them: the heaviest first. Pure."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from .tree_view import TreeIndex

Ints = npt.NDArray[np.int64]


def children_page(index: TreeIndex, node: int, offset: int, limit: int) -> Ints:
    """Return some of a node's children, the heaviest first; equal ones in the tree's order.

    Args:
        index: the tree; of a joined one, the second side decides among equals.
        node: the parent.
        offset: how many children to leave out.
        limit: how many to return.
    """
    children = index.children(node)
    here = slice(children.start, children.stop)
    keys = [-index.tree.total_ns[here]]
    if index.tree.sides:
        keys.insert(0, -index.side_totals[1][here])
    order = np.lexsort(keys)[offset : offset + limit]
    return children.start + order.astype(np.int64)


def heaviest_path(index: TreeIndex, node: int, limit: int) -> list[int]:
    """Return the nodes from a node down, each the heaviest child of the one before.

    Args:
        index: the tree.
        node: the first one, which is not returned.
        limit: of the nodes to return.
    """
    path: list[int] = []
    while len(path) < limit and index.child_count[node]:
        node = int(children_page(index, node, 0, 1)[0])
        path.append(node)
    return path
