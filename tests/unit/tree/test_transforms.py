"""Other shapes of call trees: against stacks, each handled by itself in plain Python."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import replace
from itertools import groupby

import numpy as np
import pytest

from call_trees import Stack, Stacks, random_tree, stacks_of, tree_of
from flametap.model import Function
from flametap.tree import transforms
from flametap.tree.calltree import CallTree
from flametap.tree.name_order import NameOrder, Order
from flametap.tree.tree_view import TreeIndex, resolve_path
from flametap.tree.upward import callers, invert

SEEDS = range(6)


def mapped(stacks: Stacks, change: Callable[[Stack], Stack | None]) -> Stacks:
    """Each stack changed; left out where the change is None."""
    found: Stacks = Counter()
    for stack, weight in stacks.items():
        changed = change(stack)
        if changed is not None:
            found[changed] += weight
    return found


def order_of(tree: CallTree) -> Order:
    return NameOrder().of(tree.functions)


def mask(tree: CallTree, names: Collection[str]) -> np.ndarray:
    return np.array([function.name in names for function in tree.functions])


def check(tree: CallTree) -> None:
    """What holds for every call tree."""
    n = len(tree.parent)
    assert tree.parent[0] == tree.function[0] == -1
    assert (tree.parent[1:] < np.arange(1, n)).all()
    assert (np.diff(tree.parent) >= 0).all(), "breadth first, siblings adjacent"
    assert (tree.depth[1:] == tree.depth[tree.parent[1:]] + 1).all()
    sums = tree.self_ns.copy()
    np.add.at(sums, tree.parent[1:], tree.total_ns[1:])
    assert (sums == tree.total_ns).all()
    ranks = order_of(tree).rank[tree.function[1:]]
    same_parent = np.diff(tree.parent[1:]) == 0
    assert (np.diff(ranks)[same_parent] > 0).all(), "siblings by name, each function once"
    has_weight = tree.total_ns > 0
    for side in tree.sides:
        has_weight |= TreeIndex(tree).totals(side) > 0
    assert has_weight[1:].all()


def compared(seed: int) -> CallTree:
    """A random tree with two sides."""
    tree = random_tree(400, seed)
    other = np.random.default_rng(seed).permutation(tree.self_ns)
    return replace(tree, sides=(tree.self_ns, other))


def from_first(names: Collection[str]) -> Callable[[Stack], Stack | None]:
    return lambda stack: next((stack[at:] for at, name in enumerate(stack) if name in names), None)


def passes(names: Collection[str]) -> Callable[[Stack], Stack | None]:
    return lambda stack: stack if set(stack) & set(names) else None


def avoids(names: Collection[str]) -> Callable[[Stack], Stack | None]:
    return lambda stack: None if set(stack) & set(names) else stack


def up_from_first(names: Collection[str]) -> Callable[[Stack], Stack | None]:
    def change(stack: Stack) -> Stack | None:
        first = next((at for at, name in enumerate(stack) if name in names), None)
        return None if first is None else stack[first::-1]

    return change


def folded(names: Collection[str]) -> Callable[[Stack], Stack]:
    def change(stack: Stack) -> Stack:
        labels = ["h" if name in names else name for name in stack]
        runs = groupby(zip(stack, labels, strict=True), lambda each: each[0] in names)
        return tuple(
            label
            for is_folded, run in runs
            for label in (["h"] if is_folded else [name for _, name in run])
        )

    return change


CHANGES: dict[
    str, tuple[Callable[..., CallTree], Callable[[str], Callable[[Stack], Stack | None]]]
] = {
    "hide": (transforms.hide, lambda names: lambda s: tuple(n for n in s if n not in names)),
    "only": (transforms.only, passes),
    "without": (transforms.without, avoids),
    "focus": (transforms.focus, from_first),
}


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("names", ["a", "bc", "", "abcdefgh"])
@pytest.mark.parametrize("kind", CHANGES)
def test_change_is_what_it_is_for_each_stack(kind: str, names: str, seed: int) -> None:
    change, plain = CHANGES[kind]
    tree = compared(seed)
    changed = change(TreeIndex(tree), mask(tree, names), order_of(tree))
    check(changed)
    assert stacks_of(changed) == mapped(stacks_of(tree), plain(names))
    for before, after in zip(tree.sides, changed.sides, strict=True):
        assert stacks_of(changed, after) == mapped(stacks_of(tree, before), plain(names))


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("names", ["h", "gh", "acefh"])
def test_runs_of_functions_are_one_box(names: str, seed: int) -> None:
    tree = compared(seed)
    into = [each.name for each in tree.functions].index("h")
    changed = transforms.fold_runs(TreeIndex(tree), mask(tree, names), into, order_of(tree))
    check(changed)
    assert stacks_of(changed) == mapped(stacks_of(tree), folded(names))


@pytest.mark.parametrize("seed", SEEDS)
def test_direct_recursion_is_one_box(seed: int) -> None:
    tree = compared(seed)
    changed = transforms.fold_recursion(TreeIndex(tree), order_of(tree))
    check(changed)
    plain = mapped(stacks_of(tree), lambda stack: tuple(name for name, _ in groupby(stack)))
    assert stacks_of(changed) == plain


def test_chain_is_the_box_of_its_first_function_and_ends_where_it_branches() -> None:
    # all ─ start ─ main ─ run ─┬─ a ─ b (b has weight; a has none)
    #                           └─ c (weight) ─ d
    tree = tree_of(
        [
            (0, "start", 0),
            (1, "main", 0),
            (2, "run", 0),
            (3, "a", 0),
            (3, "c", 5),
            (4, "b", 7),
            (5, "d", 2),
        ]
    )
    changed = transforms.fold_chains(TreeIndex(tree), order_of(tree))
    check(changed)
    assert stacks_of(changed) == {("start", "a"): 7, ("start", "c"): 5, ("start", "c", "d"): 2}
    assert changed.chain_end is not None
    ends = [tree.functions[at].name for at in changed.chain_end[1:].tolist()]
    assert ends == ["run", "b", "c", "d"]


@pytest.mark.parametrize("seed", SEEDS)
def test_chains_keep_all_sums(seed: int) -> None:
    tree = random_tree(400, seed)
    thin = np.where(np.random.default_rng(seed).random(len(tree.parent)) < 0.7, 0, tree.self_ns)
    tree = transforms.without(
        TreeIndex(replace(tree, self_ns=thin)), mask(tree, ""), order_of(tree)
    )
    changed = transforms.fold_chains(TreeIndex(tree), order_of(tree))
    check(changed)
    assert len(changed.parent) < len(tree.parent)
    assert sorted(stacks_of(changed).values()) == sorted(stacks_of(tree).values())
    again = transforms.fold_chains(TreeIndex(changed), order_of(tree))
    assert len(again.parent) == len(changed.parent)


@pytest.mark.parametrize("seed", SEEDS)
def test_inverted_tree_has_each_stack_from_its_end(seed: int) -> None:
    tree = compared(seed)
    changed = invert(TreeIndex(tree), order_of(tree), least_share=0.0)
    check(changed)
    assert changed.is_cut is not None
    assert not changed.is_cut.any()
    assert stacks_of(changed) == mapped(stacks_of(tree), lambda stack: stack[::-1])
    for before, after in zip(tree.sides, changed.sides, strict=True):
        plain = mapped(stacks_of(tree, before), lambda stack: stack[::-1])
        assert stacks_of(changed, after) == plain


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("names", ["a", "bc", ""])
def test_callers_and_callees_have_the_weight_of_the_stacks_through_a_function(
    names: str, seed: int
) -> None:
    tree = compared(seed)
    index, order, chosen = TreeIndex(tree), order_of(tree), mask(tree, names)
    above = callers(index, chosen, order, least_share=0.0)
    below = transforms.focus(index, chosen, order)
    check(above)
    assert stacks_of(above) == mapped(stacks_of(tree), up_from_first(names))
    assert above.total_ns[0] == below.total_ns[0]
    for before, after in zip(tree.sides, above.sides, strict=True):
        assert stacks_of(above, after) == mapped(stacks_of(tree, before), up_from_first(names))


@pytest.mark.parametrize("seed", SEEDS)
def test_narrow_nodes_of_an_inverted_tree_are_cut_and_open_along_a_path(seed: int) -> None:
    tree = random_tree(600, seed)
    index, order = TreeIndex(tree), order_of(tree)
    whole = TreeIndex(invert(index, order, least_share=0.0))
    cut = invert(index, order, least_share=0.02)
    check(cut)
    assert cut.is_cut is not None
    assert cut.is_cut.any()
    assert cut.total_ns[0] == whole.tree.total_ns[0]
    totals = {}
    for node in range(1, len(whole.tree.parent)):
        totals[path_of(whole.tree, node)] = int(whole.tree.total_ns[node])
    for node in range(1, len(cut.parent)):
        assert totals[path_of(cut, node)] == cut.total_ns[node]
    # Every path of the whole tree, if asked for, is there down to what lies below it.
    deepest = sorted(totals, key=len)[-1]
    for length in range(1, len(deepest)):
        path = [frozenset((function,)) for function in deepest[:length]]
        opened = TreeIndex(invert(index, order, path, least_share=0.02))
        check(opened.tree)
        node = resolve_path(opened, deepest[:length])[-1]
        below = {
            function: int(total)
            for function, total in zip(
                opened.tree.function[list(opened.children(node))].tolist(),
                opened.tree.total_ns[list(opened.children(node))].tolist(),
                strict=True,
            )
        }
        assert below == {
            end[-1]: total
            for end, total in totals.items()
            if len(end) == length + 1 and end[:-1] == deepest[:length]
        }


def path_of(tree: CallTree, node: int) -> tuple[int, ...]:
    path: list[int] = []
    while node:
        path.append(int(tree.function[node]))
        node = int(tree.parent[node])
    return tuple(path[::-1])


def test_changes_of_a_tree_without_weight() -> None:
    tree = tree_of([])
    index, order, nothing = TreeIndex(tree), order_of(tree), np.zeros(0, bool)
    for change in (transforms.hide, transforms.only, transforms.without, transforms.focus):
        assert len(change(index, nothing, order).parent) == 1
    assert len(transforms.fold_chains(index, order).parent) == 1
    assert len(invert(index, order).parent) == 1
    assert len(callers(index, nothing, order).parent) == 1


def test_order_of_functions_grows_with_them() -> None:
    functions = [Function("b", "m"), Function("a", "n")]
    order = NameOrder()
    assert order.of(functions).by_rank.tolist() == [1, 0]
    functions += [Function("a", "m"), Function("c", "m")]
    assert order.of(functions).by_rank.tolist() == [2, 1, 0, 3]
    assert order.of(functions).rank.tolist() == [2, 1, 0, 3]
