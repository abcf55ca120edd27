"""Add up what the agents of several processes, or several recordings, have counted. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

# Counters that say how it is now, not how often something was.
_HIGHEST = ("handler_ns_max",)
_LATEST = ("rate_mhz_now", "cpu_rate_mhz_now", "engine_now")
_MOST = (1 << 63) - 1


def summed(counters: Sequence[Mapping[str, int]]) -> dict[str, int]:
    """Return the sum of counters; of those that say how it is, the highest or the last one."""
    found = added(counters)
    for each in counters:
        found |= {name: each[name] for name in _LATEST if name in each}
    for name in _HIGHEST:
        found |= {name: max(each.get(name, 0) for each in counters)} if name in found else {}
    return found


def added(parts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """Return the sums of numbers by name."""
    found: Counter[str] = Counter()
    for each in parts:
        found.update(each)
    return {name: fitting(each) for name, each in found.items()}


def fitting(number: int) -> int:
    """Return a number that a file can hold, whatever the parts say."""
    return max(-_MOST, min(number, _MOST))
