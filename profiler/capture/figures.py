"""Numbers as people read them: three digits and a unit, never an exponent."""

from __future__ import annotations

# A unit begins where the one below it would show four digits.
_TIMES = ((999.5, 1, "ns"), (999.5e3, 1e3, "µs"), (999.5e6, 1e6, "ms"), (float("inf"), 1e9, "s"))


def three_digits(value: float) -> str:
    """``1.75``, ``41.2``, ``248``, ``10,000``: no more digits than that after the point."""
    return f"{value:,.0f}" if abs(value) >= 99.95 else f"{value:.3g}"


def short_time(ns: float) -> str:
    """Nanoseconds as ``1.75 µs``, ``2.16 ms``, ``3.1 s``."""
    divisor, unit = next((each, unit) for end, each, unit in _TIMES if ns < end)
    return f"{three_digits(ns / divisor)} {unit}"


def counted(count: int, noun: str) -> str:
    """``1 thread``, ``2 threads``."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"
