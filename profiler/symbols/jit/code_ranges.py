"""Find the piece of generated code at an address. Ranges may overlap; the later one is valid.

Ranges arrive in the order in which the code was made, 10^6 of them or more, and keep arriving
between searches. They are kept in sorted runs, each at least twice as long as the next one, so n
ranges cost n log n to add. Short and long ranges have separate runs. Otherwise a search for an
address would have to examine every long range around it.

Not thread-safe.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Addresses = npt.NDArray[np.uint64]
Int64s = npt.NDArray[np.int64]

# Maximum number of ranges; 32 bytes each, 40 with times. A perf map of node's own test suite has
# 10^5 lines.
MAX_RANGES = 2 << 20
ANY_TIME_NS = np.iinfo(np.int64).max
NOT_FOUND = -1
# Upper limits of the size classes. If ranges of a class do not overlap, a look-up examines at most
# as many of them as fit into one range: 16, except in the lowest class.
_SIZE_CLASSES = np.array([1 << 12, 1 << 16, 1 << 20, 1 << 24], np.uint64)
# Ranges of a run that are examined for one address, the nearest ones; it takes 2 ms. Real code has
# some hundred. A damaged map may hold two million ranges around one address.
MAX_EXAMINED = 1 << 13
# Candidates examined at once; they need 100 MB of temporary memory.
_CANDIDATES = 1 << 20


class Ranges(NamedTuple):
    """Ranges in columns. ``key`` identifies a range; later ranges have greater keys."""

    start: Addresses  # runtime_addr
    end: Addresses  # one past the last
    key: Int64s
    made_ns: Int64s | None  # CLOCK_MONOTONIC; None if unknown

    def select(self, which: npt.NDArray[np.intp] | npt.NDArray[np.bool_]) -> Ranges:
        """Return some of the ranges."""
        made_ns = None if self.made_ns is None else self.made_ns[which]
        return Ranges(self.start[which], self.end[which], self.key[which], made_ns)


class Found(NamedTuple):
    """The range at each requested address."""

    key: Int64s  # NOT_FOUND if there is none
    start: Addresses  # start of the range


@dataclass(frozen=True)
class _Run:
    """Ranges sorted by start."""

    ranges: Ranges
    reach: Addresses  # per range: the highest end of it and of all ranges before it

    def __len__(self) -> int:
        return len(self.reach)


class CodeRanges:
    """A searchable set of ranges; see the module docstring.

    Attributes:
        dropped: number of the oldest ranges that were removed because there were too many.
    """

    def __init__(self) -> None:
        self.dropped = 0
        self._classes: list[list[_Run]] = [[] for _ in range(len(_SIZE_CLASSES) + 1)]

    def __len__(self) -> int:
        return sum(len(run) for runs in self._classes for run in runs)

    def add(self, ranges: Ranges) -> None:
        """Add ranges. Their keys must be above all existing ones. No range may be empty."""
        if not len(ranges.key):
            return
        size_class = np.searchsorted(_SIZE_CLASSES, ranges.end - ranges.start)
        for i in np.unique(size_class).tolist():
            _push(self._classes[i], ranges.select(size_class == i))
        if len(self) > MAX_RANGES:
            self._drop_oldest()

    def find(self, addresses: Addresses, seen_ns: Int64s) -> Found:
        """Find the newest range at each address that existed when the address was seen.

        Args:
            addresses: runtime_addrs.
            seen_ns: when each address was seen, on the clock of ``made_ns``; ``ANY_TIME_NS`` if
                unknown.
        """
        found = Found(
            np.full(len(addresses), NOT_FOUND, np.int64), np.zeros(len(addresses), np.uint64)
        )
        for runs in self._classes:
            for run in runs:
                _find_in_run(run, addresses, seen_ns, found)
        return found

    def _drop_oldest(self) -> None:
        keys = np.concatenate([run.ranges.key for runs in self._classes for run in runs])
        # Drop a quarter more than necessary, so that not every new range requires a pass over all.
        surplus = len(keys) - MAX_RANGES * 3 // 4
        oldest_kept = np.partition(keys, surplus)[surplus]
        for runs in self._classes:
            for i, run in enumerate(runs):
                runs[i] = _sorted_run(run.ranges.select(run.ranges.key >= oldest_kept))
            runs[:] = [run for run in runs if len(run)]
        self.dropped += len(keys) - len(self)


def _push(runs: list[_Run], ranges: Ranges) -> None:
    run = _sorted_run(ranges)
    while runs and len(runs[-1]) < 2 * len(run):
        run = _sorted_run(_newest_of_equals(_concatenate(runs.pop().ranges, run.ranges)))
    runs.append(run)


def _sorted_run(ranges: Ranges) -> _Run:
    order = np.argsort(ranges.start, kind="stable")
    ranges = ranges.select(order)
    return _Run(ranges, np.maximum.accumulate(ranges.end))


def _concatenate(a: Ranges, b: Ranges) -> Ranges:
    made_ns = None
    if a.made_ns is not None and b.made_ns is not None:
        made_ns = np.concatenate((a.made_ns, b.made_ns))
    return Ranges(
        np.concatenate((a.start, b.start)),
        np.concatenate((a.end, b.end)),
        np.concatenate((a.key, b.key)),
        made_ns,
    )


def _newest_of_equals(ranges: Ranges) -> Ranges:
    """Remove ranges that a later one with the same start and end replaces.

    They come from a map that is rewritten, or from code that is made repeatedly. If times are
    known, keep them: a search may ask for the earlier one.
    """
    if ranges.made_ns is not None:
        return ranges
    order = np.lexsort((ranges.key, ranges.end, ranges.start))
    start, end = ranges.start[order], ranges.end[order]
    is_last = np.append((start[1:] != start[:-1]) | (end[1:] != end[:-1]), True)
    return ranges.select(order[is_last])


def _find_in_run(run: _Run, addresses: Addresses, seen_ns: Int64s, found: Found) -> None:
    """Update ``found`` with the newer ranges of a run."""
    end = np.searchsorted(run.ranges.start, addresses, "right")
    first = np.maximum(np.searchsorted(run.reach, addresses, "right"), end - MAX_EXAMINED)
    count = np.maximum(end - first, 0)
    asked = np.flatnonzero(count)
    # Split the addresses into groups with about _CANDIDATES candidates each, at least one address.
    groups = np.cumsum(count[asked]) // _CANDIDATES
    for group in np.split(asked, np.flatnonzero(np.diff(groups)) + 1):
        _find_among(run.ranges, first, count, group, addresses, seen_ns, found)


def _find_among(
    ranges: Ranges,
    first: npt.NDArray[np.intp],
    count: npt.NDArray[np.intp],
    asked: npt.NDArray[np.intp],
    addresses: Addresses,
    seen_ns: Int64s,
    found: Found,
) -> None:
    counts = count[asked]
    which = np.repeat(asked, counts)
    skipped = np.repeat(np.cumsum(counts) - counts, counts)
    candidate = np.repeat(first[asked], counts) + np.arange(len(which)) - skipped
    fits = ranges.end[candidate] > addresses[which]
    if ranges.made_ns is not None:
        fits &= ranges.made_ns[candidate] <= seen_ns[which]
    which, candidate = which[fits], candidate[fits]
    order = np.lexsort((ranges.key[candidate], which))
    which, candidate = which[order], candidate[order]
    is_newest = np.append(which[1:] != which[:-1], True)[: len(which)]
    which, candidate = which[is_newest], candidate[is_newest]
    better = ranges.key[candidate] > found.key[which]
    which, candidate = which[better], candidate[better]
    found.key[which] = ranges.key[candidate]
    found.start[which] = ranges.start[candidate]
