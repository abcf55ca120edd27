"""Comparing call trees: sums against stacks, probabilities against an exact test and chance."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest

from call_trees import random_tree, stacks_of, tree_of
from flametap.tree import comparison
from flametap.tree.calltree import CallTree
from flametap.tree.comparison import (
    Sizes,
    adjusted,
    function_changes,
    grades,
    join,
    two_sided,
    widened,
    z_scores,
)
from flametap.tree.name_order import NameOrder, Order
from flametap.tree.tree_view import TreeIndex


def pair(seed: int) -> tuple[CallTree, CallTree, Order]:
    here, there = random_tree(300, seed), random_tree(200, seed + 100)
    assert here.functions == there.functions
    return here, there, NameOrder().of(here.functions)


@pytest.mark.parametrize("seed", range(5))
def test_joined_tree_has_all_stacks_of_both(seed: int) -> None:
    here, there, order = pair(seed)
    joined = join(here, there, order)
    assert stacks_of(joined, joined.sides[0]) == stacks_of(here)
    assert stacks_of(joined, joined.sides[1]) == stacks_of(there)
    assert joined.total_ns[0] == here.total_ns[0]
    index = TreeIndex(joined)
    assert [int(side[0]) for side in index.side_totals] == [here.total_ns[0], there.total_ns[0]]


def test_the_rest_is_everything_but_the_range() -> None:
    everything = tree_of([(0, "a", 10), (0, "b", 7), (1, "c", 5)])
    part = tree_of([(0, "a", 4), (0, "b", 0), (1, "c", 5)])
    joined = join(part, everything, NameOrder().of(everything.functions), is_rest=True)
    assert stacks_of(joined, joined.sides[1]) == Counter({("a",): 6, ("b",): 7})


def test_width_of_both_makes_equal_shares_equally_wide() -> None:
    here, there = tree_of([(0, "a", 60), (0, "b", 40)]), tree_of([(0, "a", 6), (0, "b", 4)])
    joined = join(here, there, NameOrder().of(here.functions))
    wide = widened(joined, Sizes(100, 10, 1.0, True))
    assert wide.self_ns.tolist() == [0, 120, 80]
    assert wide.total_ns.tolist() == [200, 120, 80]


def exact_p(a: int, b: int, ratio: float) -> float:
    """Two-sided mid-p of the conditional test of two Poisson counts."""
    n, part = a + b, ratio / (1 + ratio)

    def chance(k: int) -> float:
        return math.comb(n, k) * part**k * (1 - part) ** (n - k)

    low = sum(chance(k) for k in range(a)) + chance(a) / 2
    return min(1.0, 2 * min(low, 1 - low))


@pytest.mark.parametrize(
    ("a", "b", "ratio"),
    [
        (10, 3, 1.0),
        (4, 12, 1.0),
        (30, 30, 1.0),
        (50, 20, 1.0),
        (9, 20, 0.25),
        (2, 40, 0.1),
        (8, 0, 1),
    ],
)
def test_probability_is_near_the_exact_one(a: int, b: int, ratio: float) -> None:
    sizes = Sizes(ratio * 1e9, 1e9, 1.0, False)
    p = float(two_sided(z_scores(np.array([a]), np.array([b]), sizes))[0])
    exact = exact_p(a, b, ratio)
    assert abs(p - exact) < 0.02 + 0.3 * exact


@pytest.mark.parametrize("mean", [3, 30, 3000])
@pytest.mark.parametrize("is_share", [True, False])
def test_chance_alone_is_called_a_change_as_seldom_as_it_should_be(
    mean: int, is_share: bool
) -> None:
    chance = np.random.default_rng(mean)
    if is_share:  # a third of all samples, and less
        whole = 3 * mean
        here = chance.binomial(whole, 1 / 3, 20_000)
        there = chance.binomial(whole, 1 / 3, 20_000)
        sizes = Sizes(whole, whole, 1.0, True)
    else:
        here, there = chance.poisson(mean, 20_000), chance.poisson(mean, 20_000)
        sizes = Sizes(1e9, 1e9, 1.0, False)
    p = two_sided(z_scores(here, there, sizes))
    assert 0.02 < (p < 0.05).mean() < 0.07
    assert np.count_nonzero(grades(z_scores(here, there, sizes))) < 40  # of 20 000


def test_a_real_change_is_found_and_what_is_noise_is_said_to_be_noise() -> None:
    samples = 1e7
    here = tree_of([(0, "hot", 900 * 10**7), (0, "same", 500 * 10**7), (0, "rare", 2 * 10**7)])
    there = tree_of([(0, "hot", 300 * 10**7), (0, "same", 480 * 10**7), (0, "rare", 10**7)])
    index = TreeIndex(join(here, there, NameOrder().of(here.functions)))
    sizes = Sizes(2e10, 2e10, samples, False)
    changes = function_changes(index, 0, 10, sizes)
    names = [here.functions[at].name for at in changes.function]
    assert names == ["hot", "same", "rare"]
    assert changes.self_grade.tolist() == [2, 0, 0]
    assert changes.total_grade.tolist() == [2, 0, 0]
    assert changes.self_here.tolist() == [900 * 10**7, 500 * 10**7, 2 * 10**7]


def test_sure_changes_come_before_greater_ones_that_may_be_chance() -> None:
    here = tree_of([(0, "wide", 1_001_500 * 10**7), (0, "narrow", 1_500 * 10**7)])
    there = tree_of([(0, "wide", 1_000_000 * 10**7), (0, "narrow", 1_000 * 10**7)])
    index = TreeIndex(join(here, there, NameOrder().of(here.functions)))
    for by_self in (True, False):
        changes = function_changes(index, 0, 10, Sizes(1e13, 1e13, 1e7, False), by_self=by_self)
        assert [here.functions[at].name for at in changes.function] == ["narrow", "wide"]


def test_probabilities_are_those_of_the_normal_distribution() -> None:
    z = np.array([0.0, 1.0, 1.96, 3.29, 6.0])
    expected = [math.erfc(each / math.sqrt(2)) for each in z]
    assert two_sided(z) == pytest.approx(expected, abs=2e-7)


def test_adjusted_probabilities_are_those_of_benjamini_and_hochberg() -> None:
    p = np.array([0.01, 0.04, 0.03, 0.5])
    assert adjusted(p) == pytest.approx([0.04, 0.16 / 3, 0.16 / 3, 0.5])
    assert len(adjusted(np.empty(0))) == 0


def test_sides_without_weight_do_not_differ() -> None:
    tree = tree_of([])
    joined = join(tree, tree, NameOrder().of(tree.functions))
    sizes = Sizes(0.0, 0.0, 1e7, True)
    assert z_scores(joined.sides[0], joined.sides[1], sizes).tolist() == [0.0]
    assert comparison.widened(joined, sizes).total_ns.tolist() == [0]
