"""Reading results: folded files and call trees, as sums per function."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from flametap.tree.calltree import CallTree


@dataclass(frozen=True)
class Stacks:
    """Stacks with their weights: microseconds from a folded file, nanoseconds from a tree."""

    weights: dict[tuple[str, ...], int]  # root first

    @property
    def total(self) -> int:
        """The sum of all weights."""
        return sum(self.weights.values())

    def under(self, name: str) -> int:
        """Weight of the stacks that contain this function, each counted once."""
        return sum(weight for stack, weight in self.weights.items() if name in stack)

    def share(self, name: str) -> float:
        """``under`` as a part of the total; 0 when there is nothing."""
        return self.under(name) / self.total if self.total else 0.0

    def names(self) -> set[str]:
        """Every frame's name."""
        return {name for stack in self.weights for name in stack}

    def where(self, holds: Callable[[tuple[str, ...]], bool]) -> Stacks:
        """The stacks for which ``holds`` is true."""
        return Stacks({s: weight for s, weight in self.weights.items() if holds(s)})

    def heaviest(self, count: int = 8) -> str:
        """The heaviest stacks as text, for messages of failed tests."""
        top = sorted(self.weights.items(), key=lambda item: -item[1])[:count]
        return "\n".join(f"{weight:>12} {';'.join(stack)}" for stack, weight in top)


def parse_folded(text: str) -> Stacks:
    """Parses ``root;…;leaf WEIGHT`` lines strictly: anything else is an AssertionError."""
    weights: Counter[tuple[str, ...]] = Counter()
    for line in text.splitlines():
        stack, _, weight = line.rpartition(" ")
        assert stack, f"not a folded line: {line!r}"
        assert weight.isdigit(), f"not a folded line: {line!r}"
        weights[tuple(stack.split(";"))] += int(weight)
    return Stacks(dict(weights))


def read_folded(path: Path) -> Stacks:
    """``parse_folded`` of a file."""
    return parse_folded(path.read_text(encoding="utf-8"))


def _paths(tree: CallTree) -> Iterator[tuple[tuple[str, ...], int]]:
    stacks: list[tuple[str, ...]] = [()]
    for node in range(1, len(tree.parent)):
        name = tree.functions[tree.function[node]].name
        stacks.append((*stacks[tree.parent[node]], name))
        if tree.self_ns[node]:
            yield stacks[node], int(tree.self_ns[node])


def of_tree(tree: CallTree) -> Stacks:
    """The stacks of a call tree, without its root node; only those with weight of their own."""
    weights: Counter[tuple[str, ...]] = Counter()
    for stack, weight in _paths(tree):
        weights[stack] += weight
    return Stacks(dict(weights))
