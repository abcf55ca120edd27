"""Measure other shapes of a call tree, and comparisons, on trees of 10⁵ and 10⁶ nodes.

    python bench/transforms.py [--quick] [--nodes 1000000]

Needs no target. The trees are made of stacks as those of bench/store.py: neighbours share most of
their callers. Each figure is the median of three runs, CPU time of the only thread, as a share of
the time that a view may take (0.5 s), and per million nodes.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import benchmark
from benchmark import Bench, run
from flametap.model import Function
from flametap.tree import comparison
from flametap.tree import transforms as change
from flametap.tree.calltree import CallTree
from flametap.tree.function_sums import top_functions
from flametap.tree.name_order import NameOrder, Order
from flametap.tree.tree_view import TreeIndex, visible_boxes
from flametap.tree.upward import callers, invert
from reporting import Data, Table

FUNCTIONS, MODULES = 3_000, 60
BAR_S = 0.5
RUNS = 3
WIDTH_PX = 2_800.0  # of a canvas of 1 400 pixels with two device pixels each


def tree_of(n_nodes: int) -> CallTree:
    """Return a call tree of about so many nodes: the callers fan out as they do in servers."""
    rng = np.random.default_rng(1)
    functions = [Function(f"function_{i}", f"lib{i % MODULES}.so") for i in range(FUNCTIONS)]
    parents, functions_of = [np.array([-1])], [np.array([-1])]
    level, start = np.array([0]), 0
    count = 1
    while count < n_nodes and len(level):
        width = min(n_nodes - count, int(len(level) * (2.2 if len(level) < 30_000 else 1.02)) + 1)
        # Heavy callers have most of the callees; each callee is a function of its own there.
        chosen = np.sort((len(level) * rng.random(width) ** 1.5).astype(np.int64))
        wanted = (FUNCTIONS * rng.random(width) ** 3).astype(np.int64)
        pairs = np.unique(chosen * FUNCTIONS + wanted)
        parents.append(start + pairs // FUNCTIONS)
        functions_of.append(pairs % FUNCTIONS)
        level, start = np.arange(len(pairs)), count
        count += len(pairs)
    parent = np.concatenate(parents).astype(np.int32)
    function = np.concatenate(functions_of).astype(np.int32)
    # By name, as siblings are.
    rank = NameOrder().of(functions).rank
    for begin, end in _levels(parents):
        order = np.lexsort((rank[function[begin:end]], parent[begin:end]))
        function[begin:end] = function[begin:end][order]
    self_ns = (rng.pareto(0.9, count) * 1e6).astype(np.int64) * (rng.random(count) < 0.6) + 1
    total_ns = self_ns.copy()
    for begin, end in _levels(parents)[::-1]:
        np.add.at(total_ns, parent[begin:end], total_ns[begin:end])
    depth = np.repeat(np.arange(len(parents), dtype=np.int32), [len(each) for each in parents])
    line = np.ones(count, np.int32)
    return CallTree(parent, function, self_ns, total_ns, line, line * 0, depth, functions, [""])


def _levels(parents: list[Any]) -> list[tuple[int, int]]:
    ends = np.cumsum([len(each) for each in parents]).tolist()
    return list(itertools.pairwise(ends))


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--nodes", type=int, default=1_000_000)


def works(tree: CallTree, order: Order) -> dict[str, Callable[[], Any]]:
    """What is measured, by name."""
    index = TreeIndex(tree)
    index.preorder  # noqa: B018  # a view has it already
    function = tree.function[1:]
    busiest = np.bincount(function).argsort()[::-1]
    one, module = np.zeros((2, FUNCTIONS), bool)
    one[busiest[20]] = True
    module[[i for i in range(FUNCTIONS) if tree.functions[i].module == "lib7.so"]] = True
    other = replace(tree, self_ns=np.random.default_rng(2).permutation(tree.self_ns))
    joined = comparison.join(tree, other, order)
    sizes = comparison.Sizes(float(tree.total_ns[0]), float(tree.total_ns[0]), 1e7, True)
    inverted = TreeIndex(invert(index, order))
    child = int(np.argmax(np.where(inverted.tree.depth == 1, inverted.tree.total_ns, -1)))
    path = [frozenset((int(inverted.tree.function[child]),))]
    return {
        "index of a tree, with its order": lambda: TreeIndex(tree).preorder,
        "boxes of a view": lambda: visible_boxes(index, 0, WIDTH_PX, 300),
        "table of functions": lambda: top_functions(index, 0, 300),
        "hide a function": lambda: change.hide(index, one, order),
        "hide a module": lambda: change.hide(index, module, order),
        "fold a module": lambda: change.fold_runs(index, module, 0, order),
        "fold recursion": lambda: change.fold_recursion(index, order),
        "fold chains": lambda: change.fold_chains(index, order),
        "only stacks through a function": lambda: change.only(index, one, order),
        "without a function": lambda: change.without(index, one, order),
        "callees of a function": lambda: change.focus(index, one, order),
        "callers of a function": lambda: callers(index, one, order),
        "inverted": lambda: invert(index, order),
        "inverted, zoomed": lambda: invert(index, order, path),
        "join of two trees": lambda: comparison.join(tree, other, order),
        "significance of all nodes": lambda: _judge(joined, sizes),
    }


def _judge(joined: CallTree, sizes: comparison.Sizes) -> Any:
    here, there = TreeIndex(joined).side_totals
    return comparison.grades(comparison.z_scores(here, there, sizes))


def measure(options: argparse.Namespace, _folder: Path) -> dict[str, Any]:
    """Measure everything on a tenth of the nodes, and on all."""
    n_nodes = min(options.nodes, 100_000) if options.quick else options.nodes
    rows: dict[str, dict[int, float]] = {}
    sizes = []
    for wanted in (n_nodes // 10, n_nodes):
        tree = tree_of(wanted)
        order = NameOrder().of(tree.functions)
        size = len(tree.parent)
        sizes.append(size)
        for what, work in works(tree, order).items():
            times = []
            for _ in range(RUNS):
                start = time.thread_time()
                work()
                times.append(time.thread_time() - start)
            rows.setdefault(what, {})[size] = statistics.median(times)
            benchmark.say(f"{size:,} nodes: {what}: {rows[what][size]:.3f} s")
    return {"sizes": sizes, "rows": {what: list(each.values()) for what, each in rows.items()}}


def tables(data: Data) -> list[Table]:
    small, large = data["sizes"]
    rows = [
        [what, f"{1e3 * few:.0f}", f"{1e3 * many:.0f}", f"{many / BAR_S:.2f}"]
        for what, (few, many) in data["rows"].items()
    ]
    heads = ("step", f"{small:,} nodes, ms", f"{large:,} nodes, ms", "of the bar of 0.5 s")
    return [Table("Other shapes of a call tree", heads, rows, f"{FUNCTIONS:,} functions.")]


BENCH = Bench(
    "transforms",
    "the host alone: hide, fold, focus, invert and compare call trees of 10⁶ nodes",
    arguments,
    measure,
    tables,
)

if __name__ == "__main__":
    run(BENCH)
