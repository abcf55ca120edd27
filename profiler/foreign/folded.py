"""Read folded stacks: ``root;…;leaf WEIGHT``, a line for each stack or each sample.

Nothing in such a file says what its weights are: they are shown as samples, though async-profiler
may write nanoseconds or bytes, and flametap writes microseconds. Weights that are fractions are
shown in thousandths, millionths or billionths, whatever has room for most of their digits, as
rounding them to whole numbers could leave nothing.

The frames are those of several tools: see ``folded_frames``.

Source: flamegraph.pl's format, which inferno and speedscope read.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import chain, islice

from ..recording.recording import Recording
from . import austin
from .builder import Builder, Known
from .folded_frames import FoldedFrames, dialect_of
from .stack_sums import StackSums
from .unpacked import HEAD_BYTES, MAX_LINE, N_FIRST_LINES, first_lines

MAX_DIGITS = 18  # of a weight: it fits into 64 bits

_LINE = re.compile(r".*\S \d+(?:\.\d+)?")
_BRACKETED = re.compile(r'\[[^A-Za-z="\[\]{},]*[A-Za-z=][^"\[\]{},]*\][; ]')
# What parts frames, without the space that prose has; or what a tool adds to a single frame.
_MARK = re.compile(
    r"\S;\S|_\[[kij01]\] |^thread \(\w+\)[: ]| \((?:[^()\s]+\.pyx?|[^()]+:\d+)\) [\d.]+$"
)
_FRACTION = re.compile(r"(\d{1,18})\.(\d+)")
_TWO_WEIGHTS = re.compile(r" \d+ \d+$")  # as flametap diff and difffolded.pl write them
_UNITS = {3: "thousandths", 6: "millionths", 9: "billionths"}
_MOST_DIGITS = max(_UNITS)  # behind the point


def _first_stacks(head: bytes) -> list[str]:
    return [each for each in first_lines(head) if each and not is_comment(each)][:N_FIRST_LINES]


def has_two_weights(head: bytes) -> bool:
    """Tell whether the stacks of a file of this format have two weights: of two profiles."""
    lines = _first_stacks(head)
    return bool(lines) and all(_TWO_WEIGHTS.search(each) for each in lines)


def matches(head: bytes) -> bool:
    """Tell by the start of a file whether it is of this format."""
    lines = _first_stacks(head)
    if austin.matches(head):
        return True
    if len(lines) == 1 and len(lines[0]) >= HEAD_BYTES // 4:  # its weight may be out of sight
        return ";" in lines[0] and lines[0].isprintable() and lines[0][0] not in "[{<"
    # Any list of names and numbers has such lines: something has to separate frames.
    return all(_is_stack(each) for each in lines) and any(_MARK.search(each) for each in lines)


def _is_stack(line: str) -> bool:
    if not _LINE.fullmatch(line):
        return False
    # A bracket or a brace may be the start of a frame, or of JSON.
    if line[0] == "[":
        return bool(_BRACKETED.match(line))
    return line[0] != "{" or (";" in line and '"' not in line)


def is_comment(line: str) -> bool:
    """Tell whether a line is none of stacks."""
    return line.startswith("# ") or line == "#"


def read(lines: Iterable[str], builder: Builder) -> Recording:
    """Return the recording of the lines of a file. Raises InputError."""
    lines = iter(lines)
    first = list(islice(lines, N_FIRST_LINES))
    lines = chain(first, lines)
    if austin.is_written_by_austin(first):
        return austin.read(lines, builder)
    dialect = dialect_of(each for each in first if not is_comment(each))
    frames, sums, fractions = FoldedFrames(builder, dialect), StackSums(builder), _Fractions()
    known, weights = sums.known, sums.weight
    for number, line in enumerate(lines, 1):
        text, _, weight = line.rpartition(" ")
        is_whole = weight.isdecimal() and len(weight) <= MAX_DIGITS
        if not is_whole and not _is_fraction(line, number, builder):
            continue
        place = known.get(text)
        if place is None:
            if is_comment(text):
                continue
            place = sums.place(*frames.stack(text))
            sums.remember(text, place)
        if is_whole:
            weights[place] += int(weight)
        else:
            fractions.add(place, weight)
    unit = fractions.add_to(weights)
    sums.finish(counts_samples=not unit)
    source = f"folded stacks, by {dialect.tool}" if dialect.tool else "folded stacks"
    known_of_file = Known(source, weights=unit or "samples", pid=frames.pid, program=frames.program)
    if unit:
        known_of_file.notes.append(f"its weights are fractions, and shown in {unit}")
    return builder.finish(known_of_file)


def _is_fraction(line: str, number: int, builder: Builder) -> bool:
    """Tell whether a line ends in a fraction; it is none of stacks otherwise.

    Raises:
        InputError: it should be, and has no weight that makes sense.
    """
    if not line.strip() or is_comment(line):
        return False
    weight = line.rpartition(" ")[2]
    if _FRACTION.fullmatch(weight):
        return True
    if len(line) >= MAX_LINE:
        why = f"longer than {MAX_LINE:,} bytes"
    elif weight.isdecimal():
        why = "its weight is too large"
    else:
        why = "it does not end in a weight"
    raise builder.damaged(f"line {number:,}: {why}")


class _Fractions:
    """Weights that are no whole numbers, added up without an error."""

    def __init__(self) -> None:
        self._sums: dict[int, int] = {}  # place → billionths
        self._n_digits = 0

    def add(self, place: int, weight: str) -> None:
        """Add one; digits that are beyond billionths are left out."""
        whole, _, fraction = weight.partition(".")
        fraction = fraction[:_MOST_DIGITS]
        self._n_digits = max(self._n_digits, len(fraction.rstrip("0")))
        value = int(whole) * 10**_MOST_DIGITS + int(fraction.ljust(_MOST_DIGITS, "0"))
        self._sums[place] = self._sums.get(place, 0) + value

    def add_to(self, weights: list[int]) -> str:
        """Add all to whole weights, which become a part of one; return which, "" if none is."""
        if not self._n_digits:
            for place, value in self._sums.items():
                weights[place] += value // 10**_MOST_DIGITS
            return ""
        total = sum(weights) + sum(self._sums.values()) // 10**_MOST_DIGITS
        fit = [each for each in _UNITS if total * 10**each < 1 << 59] or [min(_UNITS)]
        digits = next((each for each in fit if each >= self._n_digits), fit[-1])
        for place, weight in enumerate(weights):
            billionths = weight * 10**_MOST_DIGITS + self._sums.get(place, 0)
            weights[place] = (billionths + 10 ** (9 - digits) // 2) // 10 ** (9 - digits)
        return _UNITS[digits]
