"""Sum a call tree by function: the heaviest functions of a subtree. Pure."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ..model import FrameKind
from ..symbols.interpreters.function_origin import is_runtime
from .tree_view import TreeIndex

Bools = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]

WAITS = {"[waiting for a CPU]": "queued", "[waiting for the GIL]": "gil"}


@dataclass(frozen=True)
class TopFunctions:
    """Functions below a node in columns, heaviest first. A total counts recursion once."""

    function: Ints  # index into the tree's functions
    self_ns: Ints
    total_ns: Ints
    function_count: int  # of all functions, including those beyond the limit


def top_functions(
    index: TreeIndex,
    below: int,
    limit: int,
    *,
    first: int = 0,
    by_self: bool = True,
    matching: Bools | None = None,
) -> TopFunctions:
    """Return the heaviest functions of the subtree below ``below`` (itself included).

    A function's total is the time with the function anywhere on the stack, counted once: a node
    inside another node of the same function is skipped. With depth-first ranks that test is a
    running maximum.

    Args:
        index: the tree.
        below: the root of the subtree.
        limit: how many functions to return.
        first: how many heavier ones to leave out.
        by_self: order by self weight; otherwise by total weight.
        matching: whether each function of the tree counts; None for all.
    """
    sums = FunctionSums(index, below, matching)
    function = sums.function
    self_ns, total_ns = sums.self_ns(index.tree.self_ns), sums.total_ns(index.tree.total_ns)
    major, minor = (self_ns, total_ns) if by_self else (total_ns, self_ns)
    order = np.lexsort((-minor, -major))[first : first + limit]
    return TopFunctions(function[order], self_ns[order], total_ns[order], len(function))


def origin_sums(index: TreeIndex, below: int) -> dict[str, int]:
    """Return the own time of the functions below a node by whose code they are, nanoseconds.

    System calls are ``kernel``; the interpreter's functions are ``native``, and those in its own
    file also count as ``runtime``. Waits for a CPU are ``queued``, those for the GIL ``gil``;
    what else is no code, is left out.
    """
    tree = index.tree
    nodes = index.subtree(below) if below else slice(None)
    own_ns = np.zeros(len(tree.functions) + 1, np.int64)
    np.add.at(own_ns, tree.function[nodes], tree.self_ns[nodes])  # the root's is the last
    found: dict[str, int] = {}
    for function in np.flatnonzero(own_ns[:-1]).tolist():
        kind = tree.functions[function].kind
        if kind is FrameKind.SYNTHETIC:
            if wait := WAITS.get(tree.functions[function].name):
                found[wait] = int(own_ns[function])
            continue
        origin = "kernel" if kind is FrameKind.SYSCALL else index.origin(function)
        origin = "native" if origin == "interpreter" else origin
        is_part = origin == "native" and is_runtime(tree.functions[function])
        for each in (origin, "runtime") if is_part else (origin,):
            found[each] = found.get(each, 0) + int(own_ns[function])
    return found


def nameless_ns(index: TreeIndex, below: int) -> int:
    """Return the own time below a node of functions without a name, nanoseconds.

    System calls count as the function that makes them.
    """
    tree = index.tree
    nodes = index.subtree(below) if below else slice(None)
    function = tree.function[nodes]
    caller = tree.function[tree.parent[nodes]]
    own = np.where(index.is_syscall[function], caller, function)
    return int(tree.self_ns[nodes][index.is_nameless[own]].sum())


def nameless_frames(index: TreeIndex, below: int) -> float:
    """Return the share of frames without a name below a node, each as often as it was sampled."""
    tree = index.tree
    nodes = index.subtree(below) if below else slice(1, None)
    function, total_ns = tree.function[nodes], tree.total_ns[nodes]
    frames_ns = int(total_ns.sum())
    return int(total_ns[index.is_nameless[function]].sum()) / frames_ns if frames_ns else 0.0


def nameless_modules(index: TreeIndex) -> list[str]:
    """Return the modules that have frames without a name, those with the most of them first."""
    tree = index.tree
    frames_ns = np.bincount(tree.function[1:], tree.total_ns[1:], minlength=len(tree.functions))
    sums: dict[str, float] = {}
    for function in np.flatnonzero(index.is_nameless[:-1] & (frames_ns > 0)).tolist():
        module = tree.functions[function].module
        sums[module] = sums.get(module, 0.0) + float(frames_ns[function])
    return sorted(sums, key=lambda module: -sums[module])


class FunctionSums:
    """Sums by function over the subtree below a node (itself included).

    Attributes:
        function: the functions that occur, by id.
    """

    def __init__(self, index: TreeIndex, below: int, matching: Bools | None = None) -> None:
        """Group the nodes of a subtree by function.

        Args:
            index: the tree.
            below: the root of the subtree.
            matching: whether each function of the tree counts; None for all.
        """
        tree = index.tree
        nodes = index.subtree(below)
        nodes = nodes[tree.function[nodes] >= 0]
        if matching is not None:
            nodes = nodes[matching[tree.function[nodes]]]
        # By function; within one function, ranks ascend.
        self._nodes = nodes = nodes[np.argsort(tree.function[nodes], kind="stable")]
        self._starts = starts = np.flatnonzero(np.diff(tree.function[nodes], prepend=-1))
        self.function = tree.function[nodes[starts]].astype(np.int64)
        # One running maximum serves all functions: the ranks of each are above those of the last.
        rank, end = index.preorder
        lift = np.repeat(np.arange(len(starts)), np.diff(np.append(starts, len(nodes))))
        lift *= index.node_count + 1
        ends = np.maximum.accumulate(end[nodes] + lift)
        self._is_outermost = rank[nodes] + lift >= np.concatenate(([0], ends))[: len(nodes)]

    def self_ns(self, own: Ints) -> Ints:
        """Return each function's sum of the nodes' own weights."""
        return self._sum(own[self._nodes])

    def total_ns(self, totals: Ints) -> Ints:
        """Return each function's sum of the outermost nodes' whole weights."""
        return self._sum(np.where(self._is_outermost, totals[self._nodes], 0))

    def _sum(self, values: Ints) -> Ints:
        if not len(values):
            return np.empty(0, np.int64)
        return np.add.reduceat(values, self._starts)
