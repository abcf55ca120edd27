"""Figures from repeated measurements: medians, ranges, and how they are written in a table.

Every figure of a table is a median over rounds with its range: these machines are noisy, and a
median without its range says nothing.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

MISSING = "–"


@dataclass(frozen=True)
class Spread:
    """Median and extremes of ``count`` measurements of one thing."""

    median: float
    low: float
    high: float
    count: int

    def text(self, digits: int = 1, scale: float = 1.0) -> str:
        """``median (low … high)``; without the range for a single measurement."""
        median, low, high = (
            f"{value * scale:.{digits}f}" for value in (self.median, self.low, self.high)
        )
        return median if self.count == 1 else f"{median} ({low} … {high})"


def spread(values: Sequence[float]) -> Spread | None:
    """None when there is nothing to sum up."""
    if not values:
        return None
    return Spread(statistics.median(values), min(values), max(values), len(values))


def spread_text(values: Sequence[float], digits: int = 1, scale: float = 1.0) -> str:
    """The spread of ``values`` as a table shows it; a dash when there are none."""
    found = spread(values)
    return MISSING if found is None else found.text(digits, scale)


def ratio_text(values: Sequence[float], reference: Sequence[float], digits: int = 1) -> str:
    """Median of ``values`` as a multiple of the median of ``reference``."""
    if not values or not reference or statistics.median(reference) <= 0:
        return MISSING
    return f"{statistics.median(values) / statistics.median(reference):.{digits}f} ×"
