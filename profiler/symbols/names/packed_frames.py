"""The frames of many addresses in columns: how they go from a resolver into the table of names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...model import Frame, Function
from .inline_chains import Indexes


@dataclass(frozen=True)
class PackedFrames:
    """Of address ``a``, outermost first, rows ``first[a] : first[a] + count[a]`` of the columns
    ``function``, ``line`` and ``file`` (indexes in ``functions`` and ``files``); at least one.
    Addresses share rows.
    """

    first: Indexes
    count: Indexes
    function: Indexes
    line: Indexes  # 0 if not known, below 2^31
    file: Indexes  # of the line; 0 for the function's own
    functions: Sequence[Function]
    files: Sequence[str]  # the first is ""

    def unpack(self) -> list[tuple[Frame, ...]]:
        """The frames of each address; the same tuple wherever the rows are the same."""
        functions: list[int] = self.function.tolist()
        lines: list[int] = self.line.tolist()
        files: list[int] = self.file.tolist()
        known: dict[tuple[int, int], tuple[Frame, ...]] = {}
        answers = []
        for first, count in zip(self.first.tolist(), self.count.tolist(), strict=True):
            frames = known.get((first, count))
            if frames is None:
                frames = known[first, count] = tuple(
                    Frame(self.functions[functions[i]], lines[i], self.files[files[i]])
                    for i in range(first, first + count)
                )
            answers.append(frames)
        return answers
