"""Figures from repeated measurements: medians, ranges, and their format in a table.

Every figure of a table is a median over rounds with its range: on a noisy machine, a median without
its range has no meaning.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

MISSING = "–"


@dataclass(frozen=True)
class Spread:
    """Median and extremes of ``count`` measurements of one quantity."""

    median: float
    low: float
    high: float
    count: int

    def text(self, digits: int = 1, scale: float = 1.0) -> str:
        """Format as ``median (low … high)``; without the range for a single measurement."""
        median, low, high = (
            f"{value * scale:.{digits}f}" for value in (self.median, self.low, self.high)
        )
        return median if self.count == 1 else f"{median} ({low} … {high})"


def spread(values: Sequence[float]) -> Spread | None:
    """Return the spread of some values; None for no values."""
    if not values:
        return None
    return Spread(statistics.median(values), min(values), max(values), len(values))


def spread_text(values: Sequence[float], digits: int = 1, scale: float = 1.0) -> str:
    """Format the spread of ``values`` for a table; a dash if there are none."""
    found = spread(values)
    return MISSING if found is None else found.text(digits, scale)


def ratio_text(values: Sequence[float], reference: Sequence[float], digits: int = 1) -> str:
    """Format the median of ``values`` as a multiple of the median of ``reference``."""
    if not values or not reference or statistics.median(reference) <= 0:
        return MISSING
    return f"{statistics.median(values) / statistics.median(reference):.{digits}f} ×"
