"""Define the frames of many addresses in columns, for the way from a resolver to the table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...model import Frame, Function
from .inline_chains import Indexes


@dataclass(frozen=True)
class PackedFrames:
    """The frames of many addresses, in columns.

    The frames of address ``a``, outermost first, are rows ``first[a] : first[a] + count[a]`` of the
    columns ``function``, ``line`` and ``file`` (indexes into ``functions`` and ``files``); at least
    one. Addresses share rows.
    """

    first: Indexes
    count: Indexes
    function: Indexes
    line: Indexes  # 0 if unknown, below 2^31
    file: Indexes  # the line's file; 0 for the function's own file
    functions: Sequence[Function]
    files: Sequence[str]  # the first is ""

    def unpack(self) -> list[tuple[Frame, ...]]:
        """Return the frames of each address; addresses with the same rows share one tuple."""
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
