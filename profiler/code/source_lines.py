"""List the lines of one function with their weights and the text around them, file by file.

Mostly all lines are in the function's own file; code from an #include is in other files.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Sequence

from ..symbols.locate.source_text import SourceText
from .annotation import SourceLine
from .function_weights import LineWeights

CONTEXT_LINES = 20  # shown around each line with weight
MAX_LINES = 20_000
MAX_FILES = 50  # read for one answer; debug information may name any number

# Line → self and total weight, nanoseconds.
_Weights = dict[int, tuple[int, int]]


def source_lines(
    found: LineWeights, files: Sequence[str], text_of: Callable[[str], SourceText]
) -> tuple[list[SourceLine], list[str]]:
    """Return the lines to show, by file and line, and notes on missing text.

    Args:
        found: the lines with weight.
        files: the paths that ``found.line_file`` indexes.
        text_of: reads a file.
    """
    by_file: dict[str, _Weights] = {}
    columns = (found.line_file, found.line, found.self_ns, found.total_ns)
    weighed: list[tuple[int, int, int, int]]
    weighed = list(zip(*(column.tolist() for column in columns), strict=True))
    for in_file, line, self_ns, total_ns in weighed:
        by_file.setdefault(files[in_file], {})[line] = self_ns, total_ns
    rows: list[SourceLine] = []
    notes: list[str] = []
    for number, (file, weights) in enumerate(by_file.items()):
        text = text_of(file) if number < MAX_FILES else SourceText(None, "too many files")
        more, about = _of_file(file, weights, text)
        rows += more
        name = posixpath.basename(file)
        notes += [f"{name}: {note}" if len(by_file) > 1 and name else note for note in about]
    if len(rows) > MAX_LINES:
        notes.append(f"only the {MAX_LINES:,} heaviest lines are shown")
        heaviest = sorted(range(len(rows)), key=lambda at: -rows[at].total_ns)[:MAX_LINES]
        rows = [rows[at] for at in sorted(heaviest)]
    return rows, notes


def _of_file(file: str, weights: _Weights, text: SourceText) -> tuple[list[SourceLine], list[str]]:
    notes = []
    wanted = set(weights)
    if text.lines is not None:
        for line in weights:
            last = min(line + CONTEXT_LINES, len(text.lines))
            wanted.update(range(max(1, line - CONTEXT_LINES), last + 1) if line else ())
        if max(weights) > len(text.lines):
            notes.append("the file is shorter than when the program was built")
    notes += [text.note] if text.note else []
    rows = [
        SourceLine(file, line, *weights.get(line, (0, 0)), _line_of(text.lines, line))
        for line in sorted(wanted)
    ]
    return rows, notes


def _line_of(lines: list[str] | None, line: int) -> str | None:
    return lines[line - 1] if lines is not None and 0 < line <= len(lines) else None
