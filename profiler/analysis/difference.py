"""Compare two recordings: which functions take another share of the time, by more than chance.

Functions of the two recordings are the same if their names, modules and files are; those of
another build, whose file or folder has another name, if their names and modules are.

How far a share varies by chance is taken from the recordings themselves: each is cut into as many
blocks of time, and a function whose share varies from a block to the next by more than that of
independent samples has a difference that counts less (overdispersion; McCullagh and Nelder,
"Generalized Linear Models", 1989, 4.5; by successive differences, von Neumann, 1941). The greatest
of these differences are left out: they are where a program goes on to another phase of its work.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import PurePath

import numpy as np
import numpy.typing as npt

from ..model import Function
from ..recording.recording import Recording
from ..tree.calltree import CallTree
from ..tree.comparison import Sizes, difference, grades, join, sample_ns_of, z_scores
from ..tree.function_sums import FunctionSums
from ..tree.name_order import NameOrder
from ..tree.selection import Selection, Span
from ..tree.tree_view import TreeIndex
from .views import views_of

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

BLOCKS = 20
_PHASES = 3  # differences of each recording that are left out


@dataclass(frozen=True)
class Side:
    """One recording of two.

    Attributes:
        recording: it.
        selection: what of it is counted.
    """

    recording: Recording
    selection: Selection

    @property
    def length_ns(self) -> int:
        """The time in which it is counted, nanoseconds."""
        begin, end = self.bounds_ns()
        return end - begin

    def bounds_ns(self) -> tuple[int, int]:
        """Return begin and end of what is counted, since the start of the recording."""
        duration_ns = self.recording.process.profile.duration_ns
        span = self.selection.span or Span(0)
        begin, end = span.between(0, duration_ns)
        return min(begin, duration_ns), min(end, duration_ns)


@dataclass(frozen=True)
class Change:
    """How a function differs. Shares are parts of each side's time; the others seconds a second.

    Attributes:
        function: which.
        share: before and after.
        rate: the same, as time in a second of the recording.
        grade: 0 for chance, 1 likely, 2 certain; negative for less (``comparison.grades``).
    """

    function: Function
    share: tuple[float, float]
    rate: tuple[float, float]
    grade: int

    @property
    def points(self) -> float:
        """The difference of the shares."""
        return self.share[1] - self.share[0]


@dataclass(frozen=True)
class Difference:
    """How two recordings differ.

    Attributes:
        tree: of both, joined; its first side is the one after.
        own: by functions' own time, the greatest change first, changes by chance at the end.
        total: by their time with what they call.
    """

    tree: CallTree
    own: Sequence[Change]
    total: Sequence[Change]


def difference_of(before: Side, after: Side) -> Difference:
    """Compare two recordings by the clock of their selections."""
    here, there = _tree(after), translated(_tree(before), after.recording)
    order = NameOrder().of(after.recording.functions)
    tree = join(here, there, order)
    index = TreeIndex(tree)
    sums = FunctionSums(index, 0)
    clock = after.selection.clock
    chance_ns = max(sample_ns_of(clock, each.recording.status()) for each in (before, after))
    sizes = Sizes(float(here.total_ns[0]), float(there.total_ns[0]), chance_ns, True)
    own = [sums.self_ns(side) for side in tree.sides]
    total = [sums.total_ns(side) for side in index.side_totals]
    blocks = [_blocks(side, after.recording) for side in (after, before)]
    lengths = (float(after.length_ns), float(before.length_ns))
    return Difference(
        tree,
        _changes(tree, sums.function, own, sizes, [each[0] for each in blocks], lengths),
        _changes(tree, sums.function, total, sizes, [each[1] for each in blocks], lengths),
    )


def _tree(side: Side) -> CallTree:
    return views_of(side.recording).tree(side.selection)


def _changes(
    tree: CallTree,
    function: Ints,
    weights: Sequence[Ints],
    sizes: Sizes,
    blocks: Sequence[Floats],
    lengths_ns: tuple[float, float],
) -> list[Change]:
    here, there = weights
    spread = np.sqrt(_dispersion(blocks, function, sizes.sample_ns))
    grade = grades(z_scores(here, there, sizes) / spread)
    order = np.lexsort((-np.abs(difference(here, there, sizes)), grade == 0))
    wholes = max(sizes.there_ns, 1.0), max(sizes.here_ns, 1.0)
    return [
        Change(
            tree.functions[int(function[at])],
            (float(there[at]) / wholes[0], float(here[at]) / wholes[1]),
            (
                float(there[at]) / max(lengths_ns[1], 1.0),
                float(here[at]) / max(lengths_ns[0], 1.0),
            ),
            int(grade[at]),
        )
        for at in order.tolist()
    ]


def _dispersion(blocks: Sequence[Floats], function: Ints, chance_ns: float) -> Floats:
    """Return by how much the samples of functions vary more than independent ones, at least 1.

    Args:
        blocks: of each side, weights [block, function id], nanoseconds.
        function: of which it is returned.
        chance_ns: the weight of a sample.
    """
    found = []
    for weights in blocks:
        samples = weights / chance_ns
        known = np.minimum(function, samples.shape[1] - 2)
        x, whole = samples[:, known], samples[:, -1:]
        pairs, wholes = x[:-1] + x[1:], whole[:-1] + whole[1:]
        share = pairs / np.maximum(wholes, 1e-9)
        excess = np.zeros_like(pairs)
        for part, part_whole in ((x[:-1], whole[:-1]), (x[1:], whole[1:])):
            expected = part_whole * share
            excess += (part - expected) ** 2 / np.maximum(expected * (1 - share), 0.5)
        excess = np.where(function < samples.shape[1] - 1, excess, 0.0)
        found.append(np.sort(excess, axis=0)[: len(excess) - _PHASES].mean(axis=0))
    return np.asarray(np.maximum(np.mean(found, axis=0), 1.0), np.float64)


def _blocks(side: Side, other: Recording) -> tuple[Floats, Floats]:
    """Return own and total weights [block, id of the function in ``other``; the last: of all]."""
    begin, end = side.bounds_ns()
    edges = np.linspace(begin, end, BLOCKS + 1).astype(np.int64)
    rows: list[tuple[Ints, Ints, Ints, int]] = []
    for first, last in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
        selection = replace(side.selection, span=Span(first, last))
        tree = views_of(side.recording).tree(selection)
        if side.recording is not other:
            tree = translated(tree, other)
        index = TreeIndex(tree)
        sums = FunctionSums(index, 0)
        own, total = sums.self_ns(tree.self_ns), sums.total_ns(tree.total_ns)
        rows.append((sums.function, own, total, int(tree.total_ns[0])))
    found = [np.zeros((len(rows), len(other.functions) + 1)) for _ in range(2)]
    for at, (function, own, total, whole) in enumerate(rows):
        for matrix, weights in zip(found, (own, total), strict=True):
            np.add.at(matrix[at], function, weights)
            matrix[at, -1] = whole
    return found[0], found[1]


def translated(tree: CallTree, other: Recording) -> CallTree:
    """Return a tree with the functions of another recording, which gets those that it lacks."""
    known = {_key(each): at for at, each in reversed(list(enumerate(other.functions)))}
    exact = {each: at for at, each in enumerate(other.functions)}
    number = np.zeros(len(tree.functions) + 1, np.int32)
    number[-1] = -1  # the root's
    for at in np.unique(tree.function[1:]).tolist():
        function = tree.functions[at]
        found = exact.get(function, known.get(_key(function)))
        number[at] = other.function_id(function) if found is None else found
    nowhere = np.zeros(len(tree.parent), np.int32)
    return replace(
        tree,
        function=number[tree.function],
        line=nowhere,
        line_file=nowhere,
        functions=other.functions,
        made_by=None,
    )


def _key(function: Function) -> tuple[str, str, str]:
    module = PurePath(function.module).name
    return function.full_name or function.name, module, function.kind.value
