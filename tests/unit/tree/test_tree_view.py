"""Cutting a call tree down to what can be seen: literal trees, and a slow second opinion."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest

from call_trees import random_tree, tree_of
from flametap.model import FrameKind, Function
from flametap.tree.calltree import CallTree
from flametap.tree.function_sums import nameless_frames, nameless_ns, top_functions
from flametap.tree.tree_search import find_matches, match_functions
from flametap.tree.tree_view import (
    BIG_PARENT,
    MAX_RUN_PX,
    TreeIndex,
    ancestors,
    resolve_path,
    resolve_run,
    visible_boxes,
)

# all ─ main ─┬─ a ─ a ─ b
#             └─ b
# all ─ other
SMALL = tree_of(
    [(0, "main", 5), (0, "other", 20), (1, "a", 10), (1, "b", 30), (3, "a", 15), (5, "b", 20)]
)


def plain_boxes(tree: CallTree, zoom: int, least: float) -> dict[int, tuple[int, int, int]]:
    """Node → (row, x, total) of all boxes that are wide enough, by plain recursion."""
    kids: dict[int, list[int]] = {}
    for node in range(1, len(tree.parent)):
        kids.setdefault(int(tree.parent[node]), []).append(node)
    found = {}

    def visit(node: int, x: int, is_inside: bool) -> None:
        inside = is_inside or node == zoom
        if inside and tree.total_ns[node] >= least:
            found[node] = (int(tree.depth[node]), x, int(tree.total_ns[node]))
        elif inside:
            return
        for kid in kids.get(node, []):
            visit(kid, x, inside)
            x += int(tree.total_ns[kid])

    visit(0, 0, False)
    return found


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("width", [40.0, 700.0])
def test_boxes_are_those_that_are_wide_enough_and_lie_where_siblings_leave_them(
    seed: int, width: float
) -> None:
    tree = random_tree(400, seed)
    index = TreeIndex(tree)
    for zoom in (0, 3, 40):
        boxes = visible_boxes(index, zoom, width, 1000)
        least = max(1.0, 0.5 * tree.total_ns[zoom] / width)
        expected = plain_boxes(tree, zoom, least)
        own = boxes.node >= 0
        own[: boxes.zoom_box] = False  # ancestors
        narrow = np.flatnonzero(own & (boxes.total_ns < least))  # alone between wide siblings
        whose = boxes.node[boxes.parent[narrow]]
        assert (tree.total_ns[whose] >= BIG_PARENT * tree.total_ns[zoom]).all()
        own[narrow] = False
        columns = (boxes.node, boxes.row, boxes.x_ns, boxes.total_ns)
        got = {
            node: (row, x, total)
            for node, row, x, total in zip(*(column[own].tolist() for column in columns))  # noqa: B905
        }
        assert got == expected
        assert boxes.node[: boxes.zoom_box + 1].tolist() == ancestors(tree, zoom)


@pytest.mark.parametrize("seed", range(3))
def test_narrow_neighbours_are_drawn_as_one_and_nothing_overlaps(seed: int) -> None:
    tree = random_tree(600, seed)
    boxes = visible_boxes(TreeIndex(tree), 0, 60.0, 1000)
    least = 0.5 * tree.total_ns[0] / 60
    runs = np.flatnonzero(boxes.hidden)
    assert len(runs)
    big = tree.total_ns[boxes.node[boxes.parent[runs]]] >= BIG_PARENT * tree.total_ns[0]
    assert (big | (boxes.total_ns[runs] >= least)).all()
    assert (boxes.hidden[runs] > 1).all()
    for row in range(1, boxes.deepest_row + 1):
        at = np.flatnonzero(boxes.row == row)
        ends = boxes.x_ns[at] + boxes.total_ns[at]
        assert (boxes.x_ns[at][1:] >= ends[:-1]).all()
        parents = boxes.parent[at]
        assert (boxes.x_ns[at] >= boxes.x_ns[parents]).all()
        assert (ends <= boxes.x_ns[parents] + boxes.total_ns[parents]).all()
        assert (boxes.node[parents] >= 0).all()
    sent = np.bincount(boxes.parent[1:], boxes.total_ns[1:], minlength=len(boxes.node))
    assert (sent + boxes.self_ns <= boxes.total_ns).all()


def wide_tree(child_count: int, seed: int) -> CallTree:
    """One function that calls many others, some of them much, most of them little."""
    chance = random.Random(seed)
    weights = [int(chance.paretovariate(1.2) * 10) for _ in range(child_count)]
    names = [f"f{at:05}" for at in range(child_count)]
    children = [(1, name, weight) for name, weight in zip(names, weights, strict=True)]
    return tree_of([(0, "main", 5), *children])


def reached(index: TreeIndex, zoom: int, width_px: float, run: range | None = None) -> set[int]:
    """All nodes that have a box of their own, here or after a zoom into one of the runs."""
    boxes = visible_boxes(index, zoom, width_px, 1000, run=run)
    found = set(boxes.node[boxes.node >= 0].tolist())
    for at in np.flatnonzero(boxes.hidden).tolist():
        first, count = int(boxes.first_node[at]), int(boxes.hidden[at])
        below = range(first, first + count)
        ends = index.tree.function[[below[0], below[-1]]].tolist()
        assert resolve_run(index, zoom, (ends[0], ends[1])) == below
        assert run is None or len(below) < len(run)
        found |= reached(index, zoom, width_px, below)
    return found


@pytest.mark.parametrize("seed", range(2))
def test_every_one_of_20_000_children_is_reached_through_runs(seed: int) -> None:
    tree = wide_tree(20_000, seed)
    index = TreeIndex(tree)
    assert reached(index, 1, 1400.0) == set(range(len(tree.parent)))


def test_a_run_fills_the_width_and_lies_where_it_lay() -> None:
    tree = wide_tree(5_000, 3)
    index = TreeIndex(tree)
    before = visible_boxes(index, 1, 1000.0, 1000)
    runs = np.flatnonzero(before.hidden)
    scale = 1000.0 / tree.total_ns[1]
    assert (before.total_ns[runs] * scale <= MAX_RUN_PX + 1).all()
    at = int(runs[len(runs) // 2])
    run = range(int(before.first_node[at]), int(before.first_node[at] + before.hidden[at]))
    inside = visible_boxes(index, 1, 1000.0, 1000, run=run)
    below = np.flatnonzero(inside.row == 2)
    assert inside.x_ns[below[0]] == before.x_ns[at]
    assert inside.total_ns[below].sum() == before.total_ns[at]
    assert (inside.node[below] >= 0).sum() > 10


def test_a_run_whose_functions_are_gone_is_none() -> None:
    index = TreeIndex(SMALL)
    assert resolve_run(index, 0, (7, 9)) is None
    assert resolve_run(index, 2, (0, 1)) is None  # without children


def test_rows_beyond_the_last_one_are_counted_but_not_sent() -> None:
    boxes = visible_boxes(TreeIndex(SMALL), 0, 1000.0, 2)
    assert boxes.row.max() == 2
    assert boxes.deepest_row == 4


def test_small_tree_in_full() -> None:
    boxes = visible_boxes(TreeIndex(SMALL), 0, 1000.0, 99)
    assert boxes.node.tolist() == [0, 1, 2, 3, 4, 5, 6]
    assert boxes.row.tolist() == [0, 1, 1, 2, 2, 3, 4]
    assert boxes.x_ns.tolist() == [0, 0, 80, 0, 45, 0, 0]
    assert boxes.total_ns.tolist() == [100, 80, 20, 45, 30, 35, 20]
    assert boxes.self_ns.tolist() == [0, 5, 20, 10, 30, 15, 20]
    assert boxes.parent.tolist() == [-1, 0, 0, 1, 1, 3, 5]
    assert boxes.line.tolist() == SMALL.line.tolist()


@pytest.mark.parametrize("self_ns", [[], [0, 0]])
def test_tree_without_weight_is_one_box(self_ns: list[int]) -> None:
    tree = tree_of([(0, f"f{at}", weight) for at, weight in enumerate(self_ns)])
    boxes = visible_boxes(TreeIndex(tree), 0, 800.0, 99)
    assert boxes.node.tolist() == [0]
    assert boxes.deepest_row == 0
    assert top_functions(TreeIndex(tree), 0, 10).self_ns.sum() == 0


def test_path_resolves_to_its_longest_prefix() -> None:
    index = TreeIndex(SMALL)
    names = [function.name for function in SMALL.functions]
    main, a, b = (names.index(name) for name in ("main", "a", "b"))
    assert resolve_path(index, [main, a, a, b]) == [0, 1, 3, 5, 6]
    assert resolve_path(index, [main, b, a]) == [0, 1, 4]
    assert resolve_path(index, [len(names), main]) == [0]
    assert resolve_path(index, [-1]) == [0]


def test_search_counts_each_nanosecond_once_however_deep_the_recursion() -> None:
    index = TreeIndex(SMALL)
    matching = match_functions(SMALL, lambda function: function.name in ("a", "b"))
    found = find_matches(index, matching)
    assert found.nodes.tolist() == [3, 4]  # not the a inside a, nor the b inside that
    assert found.total_ns == 75
    inside = find_matches(index, matching, below=5)
    assert (inside.nodes.tolist(), inside.total_ns) == ([5], 35)
    nothing = find_matches(index, match_functions(SMALL, lambda function: False))
    assert (len(nothing.nodes), nothing.total_ns) == (0, 0)


@pytest.mark.parametrize("seed", range(4))
def test_search_sum_equals_a_plain_walk(seed: int) -> None:
    tree = random_tree(500, seed)
    matching = match_functions(tree, lambda function: function.name in "ad")
    covered = [False] * len(tree.parent)
    expected = 0
    for node in range(1, len(tree.parent)):
        covered[node] = covered[tree.parent[node]] or bool(matching[tree.function[node]])
        expected += int(tree.self_ns[node]) if covered[node] else 0
    assert find_matches(TreeIndex(tree), matching).total_ns == expected


def test_function_totals_count_recursion_once() -> None:
    top = top_functions(TreeIndex(SMALL), 0, 10)
    names = [SMALL.functions[function].name for function in top.function]
    rows = dict(zip(names, zip(top.self_ns, top.total_ns, strict=True), strict=True))
    assert rows == {"a": (25, 45), "b": (50, 50), "main": (5, 80), "other": (20, 20)}
    assert names == ["b", "a", "other", "main"]
    assert top.function_count == 4
    by_total = top_functions(TreeIndex(SMALL), 0, 2, by_self=False)
    assert by_total.total_ns.tolist() == [80, 50]
    assert by_total.function_count == 4


@pytest.mark.parametrize("seed", range(4))
def test_function_totals_equal_a_plain_walk(seed: int) -> None:
    tree = random_tree(500, seed)
    totals: dict[int, int] = {}
    for node in range(1, len(tree.parent)):
        on_stack = {int(tree.function[each]) for each in ancestors(tree, node)[1:]}
        for function in on_stack:
            totals[function] = totals.get(function, 0) + int(tree.self_ns[node])
    top = top_functions(TreeIndex(tree), 0, 100)
    assert dict(zip(top.function.tolist(), top.total_ns.tolist(), strict=True)) == totals


def test_time_without_names_is_that_of_nameless_functions_and_of_their_system_calls() -> None:
    kinds = {"[read]": FrameKind.SYSCALL, "libz.so+0x10": FrameKind.UNKNOWN}
    rows = [(0, "main", 5), (1, "[read]", 3), (1, "libz.so+0x10", 10), (3, "[read]", 7)]
    tree = tree_of(rows)
    functions = [
        Function(each.name, "app", kind=kinds.get(each.name, FrameKind.NATIVE))
        for each in tree.functions
    ]
    index = TreeIndex(replace(tree, functions=functions))
    assert [nameless_ns(index, node) for node in range(5)] == [17, 17, 0, 17, 7]
    shares = [nameless_frames(index, node) for node in range(5)]
    assert shares == pytest.approx([17 / 52, 17 / 52, 0, 17 / 24, 0])
