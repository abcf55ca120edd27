"""Tell how far shares of the time vary by chance between two recordings.

It is taken from the recordings themselves: each is cut into as many blocks of time, and a function
whose share varies from a block to the next by more than that of independent samples has a
difference that counts less (overdispersion; McCullagh and Nelder, "Generalized Linear Models",
1989, 4.5; by successive differences, von Neumann, 1941). The greatest of these differences are left
out: they are where a program goes on to another phase of its work.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import PurePath

import numpy as np
import numpy.typing as npt

from ..model import Function
from ..recording.recording import Recording
from ..tree.calltree import CallTree
from ..tree.function_sums import FunctionSums
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
        duration_ns = self.recording.profile.duration_ns
        span = self.selection.span or Span(0)
        begin, end = span.between(0, duration_ns)
        return min(begin, duration_ns), min(end, duration_ns)


class Dispersion:
    """How far shares vary by chance; see the module docstring.

    Args:
        before: one recording.
        after: the other, whose ids of functions count.
    """

    def __init__(self, before: Side, after: Side) -> None:
        self._sides = after, before

    @cached_property
    def _blocks(self) -> list[tuple[Floats, Floats]]:
        return [_blocks(side, self._sides[0].recording) for side in self._sides]

    def spreads(self, function: Ints, chance_ns: float) -> tuple[Floats, Floats]:
        """Return by how many times own and total weights vary more than independent samples do.

        Args:
            function: ids of functions.
            chance_ns: the weight of a sample.
        """
        if not all(each.recording.status().has_moments for each in self._sides):
            return np.ones(len(function)), np.ones(len(function))  # that is not known
        own, total = (
            np.sqrt(_dispersion([each[which] for each in self._blocks], function, chance_ns))
            for which in range(2)
        )
        return own, total


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
