"""Add up the weights of equal stacks, for files that do not say when each stack was seen."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from .builder import Builder

_MAX_SUMS = 1 << 22
_MAX_CHARACTERS = 1 << 27  # of the texts that are known
_MAX_SAMPLES = (1 << 31) - 1  # of one sum: more are shown as that many


class StackSums:
    """The sums of each thread's stacks. Memory is needed for different stacks only.

    Attributes:
        known: text of a stack → its place in the columns. It is emptied when it becomes too large.
        weight: the sums, a column.
        samples: the same: how many stacks were taken.
    """

    def __init__(self, builder: Builder) -> None:
        self._builder = builder
        self.known: dict[str, int] = {}
        self.weight: list[int] = []
        self.samples: list[int] = []
        self._places: dict[int, int] = {}  # thread << 32 | node → place
        self._n_characters = 0

    def place(self, thread: int, node: int) -> int:
        """Return the place of a thread's stack in the columns.

        Raises:
            InputError: there are more than fit into memory.
        """
        found = self._places.setdefault(thread << 32 | node, len(self.weight))
        if found == len(self.weight):
            if found >= _MAX_SUMS:
                raise self._builder.too_many("stacks of threads")
            self.weight.append(0)
            self.samples.append(0)
        return found

    def remember(self, text: str, place: int) -> None:
        """Know the text of a stack from now on."""
        self._n_characters += len(text)
        if self._n_characters > _MAX_CHARACTERS:
            self.known.clear()
            self._n_characters = len(text)
        self.known[text] = place

    def finish(
        self, *, ns: int = 1, counts_samples: bool = False, cpu: Sequence[int] | None = None
    ) -> None:
        """Give the sums to the builder.

        Args:
            ns: nanoseconds of a unit of weight.
            counts_samples: the weights are the numbers of samples.
            cpu: another column, the weights by the CPU clock; None if they are the same.
        """
        columns: dict[int, list[list[int]]] = defaultdict(lambda: [[], [], [], []])
        for key, place in self._places.items():
            nodes, weights, samples, cpus = columns[key >> 32]
            weight = self.weight[place]
            nodes.append(key & 0xFFFF_FFFF)
            weights.append(weight * ns)
            samples.append(min(weight if counts_samples else self.samples[place], _MAX_SAMPLES))
            cpus.append((weight if cpu is None else cpu[place]) * ns)
        for thread, (nodes, weights, samples, cpus) in columns.items():
            self._builder.add(thread, nodes, weights, cpu=cpus, samples=samples)
