"""Format numbers for people: three digits and a unit, never an exponent."""

from __future__ import annotations

from ..model import Clock, Status

# (upper limit in ns, divisor, unit). A limit is where the unit would need four digits.
_TIMES = ((999.5, 1, "ns"), (999.5e3, 1e3, "µs"), (999.5e6, 1e6, "ms"), (float("inf"), 1e9, "s"))


def three_digits(value: float) -> str:
    """Format a number with three significant digits: ``1.75``, ``41.2``, ``248``, ``10,000``."""
    return f"{value:,.0f}" if abs(value) >= 99.95 else f"{value:.3g}"


def short_time(ns: float) -> str:
    """Format nanoseconds as ``1.75 µs``, ``2.16 ms``, ``3.1 s``."""
    divisor, unit = next((each, unit) for end, each, unit in _TIMES if ns < end)
    return f"{three_digits(ns / divisor)} {unit}"


def counted(count: int, noun: str) -> str:
    """Format a count with its noun: ``1 thread``, ``2 threads``."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def weight(status: Status, ns: int) -> str:
    """Format a weight: a duration, or what another profiler counts: ``12,345 samples``."""
    return f"{ns:,} {status.counted}" if status.counted else duration(ns / 1e9)


def weight_name(status: Status, clock: Clock) -> str:
    """Say what weights are: ``cpu time``, ``samples``; of the only clock if there is one."""
    return status.weights or f"{status.shown_clock(clock).value} time"


def are_comparable(status: Status, other: Status, clock: Clock) -> bool:
    """Tell whether the weights of two recordings are of one kind; "time" may be that of a clock."""
    names = [weight_name(each, clock) for each in (status, other)]
    are_times = all(each.endswith("time") for each in names)
    return names[0] == names[1] or ("time" in names and are_times)


def duration(seconds: float) -> str:
    """Format a duration: ``310 ms``, ``4.2 s``, ``3:07 min``, ``1:02:03 h``."""
    if seconds < 0.9995:
        return f"{seconds * 1e3:.3g} ms"
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(int(seconds), 60)
    if minutes < 60:
        return f"{minutes}:{rest:02} min"
    return f"{minutes // 60}:{minutes % 60:02}:{rest:02} h"
