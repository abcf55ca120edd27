"""Sum time in bins, for many keys at once. Pure.

Time is the area below a rate: an interval adds 1 to the rate of its key while it lasts. A
:class:`Growth` keeps the changes of the rates, not the bins. So an interval costs two rows, however
long it is, contiguous intervals cancel, and coarser bins are sums of finer ones, exactly.

Bins have equal steps: ``STEP_NS`` times a power of two, the *level*. Nine levels up it is a second.
Bin ``i`` of a level lies between the edges ``i`` and ``i + 1``; edge 0 is the caller's time 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Int32s = npt.NDArray[np.int32]
Int64s = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

STEP_NS = 1_953_125  # 2⁻⁹ s
SECOND_LEVEL = 9
MAX_LEVEL = 32

_DENSE_SLOTS = 1 << 22  # as many sums at once, at most; more are sorted instead


def step_ns(level: int) -> int:
    """Return the length of a bin of a level."""
    return STEP_NS << level


def level_for(span_ns: int, max_bins: int) -> int:
    """Return the finest level in which a span of time has at most so many bins."""
    level = 0
    while level < MAX_LEVEL and span_ns > step_ns(level) * max_bins:
        level += 1
    return level


class Growth(NamedTuple):
    """Changes of rates, in columns; the same key and edge may have several rows."""

    level: int
    key: Int32s
    edge: Int32s  # the first edge after the change
    rate: Floats  # by how much the rate changes
    rest: Floats  # nanoseconds: what the change adds up to the edge


def growth_of(level: int, key: Int32s, t0_ns: Int64s, wall_ns: Int64s, weight: Int64s) -> Growth:
    """Return the growth of intervals whose weights are spread evenly over their time.

    Args:
        level: of the bins.
        key: of each interval; those with a negative one are left out.
        t0_ns: start of each.
        wall_ns: its duration; at 0, all of its weight is in one bin.
        weight: nanoseconds.
    """
    some = (weight > 0) & (key >= 0)
    key, t0_ns, wall_ns, weight = key[some], t0_ns[some], wall_ns[some], weight[some]
    step = step_ns(level)
    first = t0_ns // step + 1
    end_ns = t0_ns + wall_ns
    last = end_ns // step + 1
    is_moment = wall_ns == 0
    rate = np.where(is_moment, 0.0, weight / np.maximum(wall_ns, 1))
    gained = np.where(is_moment, weight, rate * (first * step - t0_ns))
    lost = rate * (last * step - end_ns)
    return Growth(
        level,
        np.concatenate((key, key)),
        np.concatenate((first, last)).astype(np.int32),
        np.concatenate((rate, -rate)),
        np.concatenate((gained, -lost)).astype(np.float64, copy=False),
    )


def joined(growths: Sequence[Growth]) -> Growth:
    """Return all rows of growths of one level, at least one."""
    columns = zip(*(growth[1:] for growth in growths), strict=True)
    return Growth(growths[0].level, *(np.concatenate(column) for column in columns))


def merged(growth: Growth) -> Growth:
    """Return the same growth with each key and edge once, without those that cancel."""
    level, key, edge, rate, rest = growth
    if not len(key):
        return growth
    n_keys, low = int(key.max()) + 1, int(edge.min())
    n_edges = int(edge.max()) - low + 1
    slot = key.astype(np.int64) * n_edges + (edge - low)
    if n_keys * n_edges <= max(_DENSE_SLOTS, 4 * len(key)):
        found = np.arange(n_keys * n_edges)
        at = slot
    else:
        found, at = np.unique(slot, return_inverse=True)
    rates: Floats = np.bincount(at, rate, len(found)).astype(np.float64, copy=False)
    rests: Floats = np.bincount(at, rest, len(found)).astype(np.float64, copy=False)
    some = (rates != 0) | (rests != 0)
    found = found[some]
    return Growth(
        level,
        (found // n_edges).astype(np.int32),
        (found % n_edges + low).astype(np.int32),
        rates[some],
        rests[some],
    )


def coarser(growth: Growth) -> Growth:
    """Return the same growth for the next level."""
    late = growth.rate * np.where(growth.edge & 1, float(step_ns(growth.level)), 0.0)
    return Growth(
        growth.level + 1, growth.key, (growth.edge + 1) >> 1, growth.rate, growth.rest + late
    )


def bins(
    growths: Sequence[Growth], row_of_key: Int32s, n_rows: int, first: int, n_bins: int
) -> Floats:
    """Return the sum of each bin, in nanoseconds: one row of bins for each row.

    Args:
        growths: of one level.
        row_of_key: the row to which each key is added; -1 for none.
        n_rows: how many rows there are.
        first: the first bin.
        n_bins: how many bins.
    """
    width = n_bins + 1
    rate, rest = np.zeros(n_rows * width), np.zeros(n_rows * width)
    step = 1
    for growth in growths:
        step = step_ns(growth.level)
        row = row_of_key[growth.key]
        edge = growth.edge - first
        some = (row >= 0) & (edge <= n_bins)
        row, edge = row[some].astype(np.int64), edge[some]
        at = row * width + np.maximum(edge, 0)
        rate += np.bincount(at, growth.rate[some], n_rows * width)
        # What was added before the first bin is in none of these.
        rest += np.bincount(at, np.where(edge > 0, growth.rest[some], 0.0), n_rows * width)
    rates = np.cumsum(rate.reshape(n_rows, width), axis=1)[:, :-1]
    sums = rates * step + rest.reshape(n_rows, width)[:, 1:]
    return np.maximum(sums, 0.0)  # rounding


def sums(growths: Sequence[Growth], n_keys: int, first: int, n_bins: int) -> Floats:
    """Return the sum of each key over some bins, in nanoseconds; arguments as for ``bins``."""
    total = np.zeros(n_keys)
    end = first + n_bins
    for growth in growths:
        some = growth.edge <= end
        edge, rate, rest = growth.edge[some], growth.rate[some], growth.rest[some]
        lasts_ns = (end - np.maximum(edge, first)) * float(step_ns(growth.level))
        weight = rate * lasts_ns + np.where(edge > first, rest, 0.0)
        total += np.bincount(growth.key[some], weight, n_keys)
    return np.maximum(total, 0.0)
