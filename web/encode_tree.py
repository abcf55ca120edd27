"""Encode the rows of the call-tree table as JSON: the children of opened nodes, in pages.

The answer has one entry for each node that was asked for, and on request for those along the
heaviest path below one::

    revision   int
    total_ns   int    of the whole tree
    comparison as in a view
    nodes      [{path: [function id], offset: int, count: int, total_ns: int, rows}]
               count: of all children; rows: columns of those from offset on, heaviest first
        rows   id name module file kind origin twin; self_ns total_ns children (their number, -1 for
               a node that is expanded only if asked for); here_ns there_ns change of a comparison;
               chain (the name of the function where a folded chain ends, or "")
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from flametap.tree.comparison import Sizes, grades, z_scores
from flametap.tree.spelling import FunctionNames
from flametap.tree.tree_rows import children_page
from flametap.tree.tree_view import TreeIndex, resolve_path

from .encode import function_columns, path_ids

MAX_ROWS = 200  # of one page
MAX_NODES = 400  # pages of one request: a table with that many open nodes in sight
MAX_HEAVIEST = 512  # levels of a heaviest path


@dataclass(frozen=True)
class PageQuery:
    """The children of one node that a table wants."""

    path: tuple[int | str, ...]
    offset: int = 0
    limit: int = MAX_ROWS


def encode_page(
    index: TreeIndex, node: int, query: PageQuery, names: FunctionNames, sizes: Sizes | None
) -> dict[str, Any]:
    """Return one page of a node's children, for orjson (with numpy columns)."""
    tree = index.tree
    nodes = children_page(index, node, query.offset, min(query.limit, MAX_ROWS))
    rows = function_columns(index, tree.function[nodes].tolist(), names)
    children = index.child_count[nodes]
    if tree.is_cut is not None:
        children = children - tree.is_cut[nodes]  # -1: it has none here, but some if asked for
    rows.update(
        full_name=[tree.functions[at].full_name for at in tree.function[nodes].tolist()],
        self_ns=tree.self_ns[nodes],
        total_ns=tree.total_ns[nodes],
        children=children,
    )
    if tree.chain_end is not None:
        ends = tree.chain_end[nodes].tolist()
        functions = tree.function[nodes].tolist()
        rows["chain"] = [
            "" if end == function else tree.functions[end].name
            for end, function in zip(ends, functions, strict=True)
        ]
    if sizes is not None:
        here, there = (side[nodes] for side in index.side_totals)
        rows.update(here_ns=here, there_ns=there, change=grades(z_scores(here, there, sizes)))
    return {
        "path": path_ids(index, node),
        "offset": query.offset,
        "count": int(index.child_count[node]),
        "total_ns": int(tree.total_ns[node]),
        "rows": rows,
    }


def find_node(index: TreeIndex, path: Sequence[Collection[int]]) -> int | None:
    """Return the node at the end of a path; None if there is none."""
    nodes = resolve_path(index, path)
    return nodes[-1] if len(nodes) == len(path) + 1 else None
