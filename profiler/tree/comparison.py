"""Compare two call trees: join them into one, and tell change from noise. Pure.

A joined tree has the nodes of both. Its ``sides`` are the own weights here (of the first tree) and
there (of the second). Its weights are those of the first tree, or of both together, where the
second tree's are scaled so that equal shares are equally wide.

Significance: a weight is taken as a number of samples, each worth the same, drawn independently.
The two numbers are compared as Poisson counts by the difference of their square roots, which is
near the exact test also for few samples (Huffman 1984; Gu, Ng, Tang, Schucany, "Testing the ratio
of two Poisson rates", 2008). Shares of a whole vary less than Poisson counts, by the part that is
left; so the difference is divided by the root of that.

Among a thousand functions, fifty would differ by chance at a level of 5 %. So the probabilities of
one answer are adjusted together for the share of false alarms (Benjamini and Hochberg, 1995).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from ..model import Clock, Status
from .calltree import CallTree, Skeleton
from .expand import split_by
from .function_sums import FunctionSums
from .merge import merge, packed_lines, unpacked_lines
from .name_order import Order
from .transforms import functions_at
from .tree_view import TreeIndex

Ints = npt.NDArray[np.int64]
AnyInts = npt.NDArray[np.integer]
Int32s = npt.NDArray[np.int32]
Floats = npt.NDArray[np.float64]

Spreads = Callable[[Ints, float], "tuple[Floats, Floats]"]
"""Takes ids of functions and the weight of a sample; returns by how many times the own and the
total weights of each vary more than independent samples do."""

NS_PER_S = 1e9
LIKELY, CERTAIN = 0.05, 0.001  # of the adjusted probability that there is no change


@dataclass(frozen=True)
class Sizes:
    """What the weights of two sides are compared by.

    Attributes:
        here_ns: the first side's weight in all, or its length of time.
        there_ns: the second side's.
        sample_ns: weight of one sample.
        is_share: True if the weights are shares of these.
    """

    here_ns: float
    there_ns: float
    sample_ns: float
    is_share: bool


def join(here: CallTree, there: CallTree, order: Order, *, is_rest: bool = False) -> CallTree:
    """Join two trees of the same functions; the weights are those of ``here``.

    Args:
        here: the first tree.
        there: the second tree.
        order: of the functions.
        is_rest: the second tree contains the first one, and the rest of it is compared.
    """
    n = len(here.parent)
    if n == len(there.parent) == 1:
        return replace(here, sides=(here.self_ns, there.self_ns))
    if here.made_by and there.made_by and here.made_by[0]() is there.made_by[0]():
        skeleton = here.made_by[0]()
        if skeleton is not None:
            return _joined(here, there, skeleton, is_rest)
    number = np.concatenate((np.zeros(n, np.int32), np.full(len(there.parent), n, np.int32)))
    parent = np.maximum(np.concatenate((here.parent, there.parent)) + number, 0)
    function = np.concatenate((here.function, there.function))
    depth = np.concatenate((here.depth, there.depth))
    merged = merge(parent, order.rank[function], split_by(depth), len(order.rank))
    none_here, none_there = np.zeros(n, np.int64), np.zeros(len(there.parent), np.int64)
    self_here = merged.sums(np.concatenate((here.self_ns, none_there)))
    self_there = merged.sums(np.concatenate((none_here, there.self_ns)))
    if is_rest:
        self_there = np.maximum(0, self_there - self_here)
    total = np.concatenate((here.total_ns, there.total_ns))
    lines = np.concatenate((here.line, there.line))
    files = np.concatenate((here.line_file, there.line_file))
    line, line_file = merged.lines(lines, files, total)
    return CallTree(
        parent=merged.parent.astype(np.int32),
        function=functions_at(merged.key, order),
        self_ns=self_here,
        total_ns=merged.totals(self_here),
        line=line,
        line_file=line_file,
        depth=merged.depths,
        functions=here.functions,
        line_files=here.line_files,
        line_tiers=here.line_tiers,
        sides=(self_here, self_there),
    )


def _joined(here: CallTree, there: CallTree, skeleton: Skeleton, is_rest: bool) -> CallTree:
    """Join two trees that were made by one skeleton, which says what their nodes share."""
    assert here.made_by
    assert there.made_by
    shown = np.zeros(len(skeleton), bool)
    shown[here.made_by[1]] = shown[there.made_by[1]] = True
    place = np.cumsum(shown) - 1
    at_here, at_there = place[here.made_by[1]], place[there.made_by[1]]
    parent, function, depth = skeleton.columns(shown)

    def spread(values: AnyInts, at: Ints) -> Ints:
        found = np.zeros(len(parent), np.int64)
        found[at] = values
        return found

    self_here, self_there = spread(here.self_ns, at_here), spread(there.self_ns, at_there)
    line, line_file = _heavier_lines((here, there), (at_here, at_there), spread)
    return CallTree(
        parent=parent,
        function=function,
        self_ns=self_here,
        total_ns=spread(here.total_ns, at_here),
        line=line,
        line_file=line_file,
        depth=depth,
        functions=here.functions,
        line_files=here.line_files,
        line_tiers=here.line_tiers,
        sides=(self_here, np.maximum(0, self_there - self_here) if is_rest else self_there),
    )


def _heavier_lines(
    sides: tuple[CallTree, CallTree], at: tuple[Ints, Ints], spread: Callable[[AnyInts, Ints], Ints]
) -> tuple[Int32s, Int32s]:
    """Return the line of each node and its file: those of the heavier side that has a line.

    Of sides of equal weight, the lower: as ``merge.Lines``. On most nodes the sides agree.

    Args:
        sides: the two trees.
        at: which nodes theirs are, in ascending order.
        spread: makes a column of all nodes of one of some nodes, and of these.
    """
    here, there = (
        spread(packed_lines(side.line, side.line_file), where)
        for side, where in zip(sides, at, strict=True)
    )
    found = np.where(here == 0, there, here)
    differ = np.flatnonzero((here != there) & (here > 0) & (there > 0))
    here, there = here[differ], there[differ]
    weights = [
        side.total_ns[np.searchsorted(where, differ)] for side, where in zip(sides, at, strict=True)
    ]
    has_line = [unpacked_lines(side)[0] > 0 for side in (here, there)]
    lacks = ~(has_line[0] | has_line[1])
    a, b = (np.where(has | lacks, each, 0) for has, each in zip(has_line, weights, strict=True))
    heavier = np.where(a > b, here, there)
    found[differ] = np.where(a == b, np.minimum(here, there), heavier)
    return unpacked_lines(found)


def widened(tree: CallTree, sizes: Sizes) -> CallTree:
    """Return a joined tree whose weights are those of both sides together."""
    here, there = tree.sides
    scale = sizes.here_ns / sizes.there_ns if sizes.there_ns > 0 else 1.0
    self_ns = here + np.rint(there * scale).astype(np.int64)
    return replace(tree, self_ns=self_ns, total_ns=TreeIndex(tree).totals(self_ns))


def z_scores(here: Ints, there: Ints, sizes: Sizes) -> Floats:
    """Return how far weights differ, in standard deviations; above 0 where there is more here."""
    if min(sizes.here_ns, sizes.there_ns) <= 0:
        return np.zeros(len(here))
    ratio = sizes.here_ns / sizes.there_ns
    a, b = here / sizes.sample_ns, there / sizes.sample_ns
    z = 2 * (np.sqrt(a + 0.375) - np.sqrt((b + 0.375) * ratio)) / np.sqrt(1 + ratio)
    # Equal shares differ by nothing, also where the constants say otherwise.
    z = np.where((a < 1) & (b < 1), 0.0, z)
    if not sizes.is_share:
        return np.asarray(z, np.float64)
    left = 1 - (here + there) / (sizes.here_ns + sizes.there_ns)
    return np.where(left > 1e-9, z / np.sqrt(np.maximum(left, 1e-9)), 0.0)


def grades(z: Floats) -> npt.NDArray[np.int8]:
    """Return how sure each change is: 0 noise, 1 likely, 2 certain; negative for less."""
    p = adjusted(two_sided(z))
    sure = (p < LIKELY).astype(np.int8) + (p < CERTAIN).astype(np.int8)
    return np.where(z < 0, -sure, sure).astype(np.int8)


def two_sided(z: Floats) -> Floats:
    """Return the probability of a deviation at least so far from 0, in either direction.

    Abramowitz and Stegun, 7.1.26: within 1.5e-7.
    """
    x = np.abs(z) / np.sqrt(2)
    t = 1 / (1 + 0.3275911 * x)
    series = t * (
        0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429)))
    )
    return np.asarray(series * np.exp(-x * x), np.float64)


def adjusted(p: Floats) -> Floats:
    """Return probabilities adjusted together for the share of false alarms."""
    order = np.argsort(p)
    count = len(p)
    scaled = p[order] * count / np.arange(1, count + 1)
    found = np.empty(count)
    found[order] = np.minimum.accumulate(scaled[::-1])[::-1]
    return np.minimum(found, 1.0)


@dataclass(frozen=True)
class FunctionChanges:
    """How functions differ between two sides, in columns, the greatest difference first."""

    function: Ints  # index into the tree's functions
    self_here: Ints
    self_there: Ints
    total_here: Ints
    total_there: Ints
    self_grade: npt.NDArray[np.int8]  # see ``grades``
    total_grade: npt.NDArray[np.int8]
    function_count: int  # of all functions, including those beyond the limit


def function_changes(
    index: TreeIndex,
    below: int,
    limit: int,
    sizes: Sizes,
    *,
    by_self: bool = True,
    matching: npt.NDArray[np.bool_] | None = None,
    spreads: Spreads | None = None,
) -> FunctionChanges:
    """Return how functions differ in the subtree below a node (itself included).

    Changes that are more than chance come first, the greatest first.

    Args:
        index: a joined tree.
        below: the root of the subtree.
        limit: how many functions to return.
        sizes: what the sides are compared by.
        by_self: order by changes of own weight; otherwise of total weight.
        matching: whether each function of the tree counts; None for all.
        spreads: tells how far weights vary by chance; None: as independent samples do.
    """
    sums = FunctionSums(index, below, matching)
    self_here, self_there = (sums.self_ns(side) for side in index.tree.sides)
    total_here, total_there = (sums.total_ns(side) for side in index.side_totals)
    # Of all functions, not only of those that are returned: the more there are, the more alarms.
    ones = np.ones(len(sums.function))
    own, total = spreads(sums.function, sizes.sample_ns) if spreads else (ones, ones)
    self_grade = grades(z_scores(self_here, self_there, sizes) / own)
    total_grade = grades(z_scores(total_here, total_there, sizes) / total)
    pair, grade = ((self_here, self_there), self_grade)
    if not by_self:
        pair, grade = ((total_here, total_there), total_grade)
    order = np.lexsort((-np.abs(difference(*pair, sizes)), grade == 0))[:limit]
    return FunctionChanges(
        sums.function[order],
        self_here[order],
        self_there[order],
        total_here[order],
        total_there[order],
        self_grade[order],
        total_grade[order],
        len(sums.function),
    )


def difference(here: Ints, there: Ints, sizes: Sizes) -> Floats:
    """Return the difference of weights, each as a part of its side's size."""
    return here / max(sizes.here_ns, 1.0) - there / max(sizes.there_ns, 1.0)


_NO_RATE_HZ = 1e-9  # all changes may be chance


def sample_ns_of(clock: Clock, *states: Status) -> float:
    """Return how much time one sample stands for; of several recordings, the most.

    Sleeping threads are looked at by a rate of its own, and their time is most of the wall time.
    """
    return max(_sample_ns(clock, each) for each in states)


def _sample_ns(clock: Clock, status: Status) -> float:
    if status.source:  # of another profiler: the average weight of a sample, if it counts them
        return NS_PER_S / (status.effective_rate_hz or _NO_RATE_HZ)
    rates = {
        Clock.CPU: status.effective_rate_hz or status.rate_hz,
        Clock.OFF_CPU: status.look_rate_hz,
        Clock.WALL: min(status.rate_hz, status.look_rate_hz) or status.rate_hz,
    }
    rate = rates[clock] or 100.0
    return NS_PER_S / min(max(rate, 0.1), 1e6)
