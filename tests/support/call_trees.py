"""Call trees for tests: literal ones, and random ones."""

from __future__ import annotations

import random
from collections import Counter

import numpy as np

from flametap.model import Function
from flametap.tree.calltree import CallTree

Stack = tuple[str, ...]
Stacks = Counter[Stack]


def tree_of(rows: list[tuple[int, str, int]]) -> CallTree:
    """A tree from (parent, name, self_ns) in breadth-first order; the root is there already."""
    names = sorted({name for _, name, _ in rows})
    parent = np.array([-1, *(row[0] for row in rows)], np.int32)
    self_ns = np.array([0, *(row[2] for row in rows)], np.int64)
    total_ns = self_ns.copy()
    depth = np.zeros(len(parent), np.int32)
    for node in range(1, len(parent)):
        depth[node] = depth[parent[node]] + 1
    for node in range(len(parent) - 1, 0, -1):
        total_ns[parent[node]] += total_ns[node]
    function = np.array([-1, *(names.index(row[1]) for row in rows)], np.int32)
    functions = [Function(name, "app") for name in names]
    return CallTree(
        parent, function, self_ns, total_ns, parent + 10, parent * 0, depth, functions, [""]
    )


def random_tree(node_count: int, seed: int) -> CallTree:
    chance = random.Random(seed)
    levels = [[0]]
    rows: list[tuple[int, str, int]] = []
    while len(rows) < node_count:
        parents = sorted(chance.choices(levels[-1], k=chance.randint(1, 3 * len(levels[-1]) + 5)))
        level = []
        for parent in parents:
            rows.append((parent, chance.choice("abcdefgh"), int(chance.paretovariate(0.9) * 10)))
            level.append(len(rows))
        levels.append(level)
    return tree_of(rows)


def stacks_of(tree: CallTree, weights: np.ndarray | None = None) -> Stacks:
    """The own weight of each stack of names, root first, where it is above 0."""
    names: list[Stack] = [()]
    for node in range(1, len(tree.parent)):
        name = tree.functions[tree.function[node]].name
        names.append((*names[tree.parent[node]], name))
    own = tree.self_ns if weights is None else weights
    found: Stacks = Counter()
    for stack, self_ns in zip(names, own.tolist(), strict=True):
        found[stack] += self_ns
    return +found
