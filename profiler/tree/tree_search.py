"""Find functions and nodes of a call tree by a predicate. Pure functions, vectorised over nodes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from ..model import Function
from .calltree import CallTree
from .tree_view import TreeIndex

Bools = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Matches:
    """The matches of a search below a node.

    The weight counts each stack once, even with recursion: only matches that are not inside another
    match add to it.
    """

    nodes: Ints  # the outermost matches, heaviest first
    total_ns: int


def match_functions(tree: CallTree, matches: Callable[[Function], bool]) -> Bools:
    """Evaluate a predicate for each function that occurs in the tree.

    A function with lines in other files also matches if it would match with one of them as its
    file.

    Returns:
        bool, one per function of ``tree.functions``.
    """
    used = np.zeros(len(tree.functions), np.bool_)
    used[tree.function[tree.function >= 0]] = True
    for function in np.flatnonzero(used).tolist():
        used[function] = matches(tree.functions[function])
    elsewhere = np.flatnonzero(tree.line_file)
    pairs = np.stack((tree.function[elsewhere], tree.line_file[elsewhere]), axis=1)
    for function, file in np.unique(pairs, axis=0).tolist():
        if not used[function] and tree.line_files[file]:
            used[function] = matches(replace(tree.functions[function], file=tree.line_files[file]))
    return used


def find_matches(index: TreeIndex, matching: Bools, below: int = 0) -> Matches:
    """Find the nodes below ``below`` (itself included) whose function matches.

    Args:
        index: the tree.
        matching: whether each function of the tree matches (``match_functions``).
        below: the node to search.
    """
    nodes = index.subtree(below)
    function = index.tree.function[nodes]
    found = nodes[matching[function] & (function >= 0)]  # depth first: ranks ascend
    if len(found):
        rank, end = index.preorder
        ends = np.maximum.accumulate(end[found])
        found = found[rank[found] >= np.concatenate(([0], ends[:-1]))]
    total = index.tree.total_ns[found]
    return Matches(found[np.argsort(-total, kind="stable")], int(total.sum()))
