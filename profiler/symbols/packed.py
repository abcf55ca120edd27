"""The frames of many addresses in columns: how they go from a resolver into the table of names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from flametap.model import Frame, Function
from flametap.symbols.lines import Indexes


@dataclass(frozen=True)
class PackedFrames:
    """Of address ``a``, outermost first, rows ``first[a] : first[a] + count[a]`` of the columns
    ``function`` (an index in ``functions``) and ``line``; at least one. Addresses share rows.
    """

    first: Indexes
    count: Indexes
    function: Indexes
    line: Indexes  # 0 if not known, below 2^31
    functions: Sequence[Function]

    def unpack(self) -> list[tuple[Frame, ...]]:
        """The frames of each address; the same tuple wherever the rows are the same."""
        functions, lines = self.function.tolist(), self.line.tolist()
        known: dict[tuple[int, int], tuple[Frame, ...]] = {}
        answers = []
        for first, count in zip(self.first.tolist(), self.count.tolist(), strict=True):
            frames = known.get((first, count))
            if frames is None:
                frames = known[first, count] = tuple(
                    Frame(self.functions[functions[i]], lines[i])
                    for i in range(first, first + count)
                )
            answers.append(frames)
        return answers
