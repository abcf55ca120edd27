"""Sum many intervals once, so that a view of a long recording need not read them. Pure.

A *node* stands for the intervals that came in one piece of time, its window. It has

- the sums of each cell, for trees;
- the time of each *kind of cell* in bins, for timelines: cells that a timeline does not tell apart
  are of one kind, which is known by the first of them;
- the numbers of waits by kind, bin and duration, for heat maps.

Nodes of adjacent windows merge into one with coarser bins. Intervals that are not inside the window
of their node, like a sleep that began long before, are left out: they are kept one by one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from .interval_chunk import Block
from .time_bins import Floats, Int32s, Int64s, bins, growth_of, level_for, step_ns
from .wait_rows import SHORTEST_NS, WAIT_ROWS, wait_row

MAX_BINS = 64
LEAST_BINS = 4
_MOST_SUMS = 1 << 16  # by kind and bin: with many kinds, there are fewer bins

Bools = npt.NDArray[np.bool_]
Table = TypeVar("Table", "CellSums", "BinSums", "WaitCounts")


class CellSums(NamedTuple):
    """Sums by cell, in columns; cells ascend. Nanoseconds."""

    cell: Int32s
    wall_ns: Int64s
    cpu_ns: Int64s
    off_ns: Int64s  # asleep, or waiting for a CPU
    samples: Int64s  # stacks taken

    @property
    def total_ns(self) -> float:
        """The sum of all times, which may be larger than what fits into 64 bits."""
        wall, cpu, off = (
            each.sum(dtype=np.float64) for each in (self.wall_ns, self.cpu_ns, self.off_ns)
        )
        return float(max(wall + cpu, off))


class BinSums(NamedTuple):
    """Sums by kind of cell and bin, in columns. Nanoseconds."""

    cell: Int32s  # the first of its kind
    bin: Int32s
    wall_ns: Int64s
    cpu_ns: Int64s
    off_ns: Int64s


class WaitCounts(NamedTuple):
    """Numbers of waits by kind of cell, by the bin in which they ended, and by their duration."""

    cell: Int32s
    bin: Int32s
    row: Int32s  # of the duration (``wait_rows``)
    number: Int64s


class NodeSums(NamedTuple):
    """What a node has; see the module docstring."""

    level: int  # of the bins (``time_bins``); edge 0 is at the start of the recording
    cells: CellSums
    bins: BinSums
    waits: WaitCounts

    @property
    def n_bytes(self) -> int:
        """What it takes in memory."""
        tables = self.cells, self.bins, self.waits
        return sum(column.nbytes for table in tables for column in table)


class CellKinds(NamedTuple):
    """What is known of each cell."""

    is_running: Bools
    first: Int32s  # the first cell of its kind


def is_inside(block: Block, window_ns: tuple[int, int]) -> Bools:
    """Return which intervals are inside a window."""
    start_ns, end_ns = window_ns
    inside: Bools = (block.t0_ns >= start_ns) & (block.t0_ns + block.wall_ns <= end_ns)
    return inside


def sums_of(
    block: Block, samples: Int64s, kinds: CellKinds, window_ns: tuple[int, int], origin_ns: int
) -> NodeSums:
    """Return the sums of intervals that are inside a window.

    Args:
        block: the intervals.
        samples: the number of stacks taken in each.
        kinds: of all cells.
        window_ns: the window.
        origin_ns: the start of the recording.
    """
    runs = kinds.is_running[block.cell]
    off_ns = np.where(runs, np.maximum(block.wall_ns - block.cpu_ns, 0), block.wall_ns)
    cell, at = _numbered(block.cell, len(kinds.first))
    columns = block.wall_ns, block.cpu_ns, off_ns, samples
    cells = CellSums(cell, *(_added(at, each, len(cell)) for each in columns))
    kind, at = _numbered(kinds.first[block.cell], len(kinds.first))
    level = _level(window_ns, len(kind))
    t0_ns = block.t0_ns - origin_ns
    low = (window_ns[0] - origin_ns) // step_ns(level)
    n_bins = (window_ns[1] - origin_ns) // step_ns(level) + 1 - low
    wall, cpu = _in_bins(
        level, at, t0_ns, block.wall_ns, (block.wall_ns, block.cpu_ns), len(kind), low, n_bins
    )
    row, column = np.nonzero(wall + cpu)
    wall_ns, cpu_ns = (each[row, column].astype(np.int64) for each in (wall, cpu))
    rest_ns = np.where(kinds.is_running[kind[row]], np.maximum(wall_ns - cpu_ns, 0), wall_ns)
    in_bins = BinSums(kind[row], (column + low).astype(np.int32), wall_ns, cpu_ns, rest_ns)
    some = ~runs & (block.wall_ns >= SHORTEST_NS)
    ended = (t0_ns[some] + block.wall_ns[some] - 1) // step_ns(level) - low
    what = (at[some].astype(np.int64) * n_bins + ended) * WAIT_ROWS + wait_row(block.wall_ns[some])
    group, number = np.unique(what, return_counts=True)
    where, duration = np.divmod(group, WAIT_ROWS)
    waits = WaitCounts(
        kind[where // n_bins],
        (where % n_bins + low).astype(np.int32),
        duration.astype(np.int32),
        number.astype(np.int64),
    )
    return NodeSums(level, cells, in_bins, waits)


def summed(nodes: Sequence[NodeSums]) -> NodeSums:
    """Return the sums of nodes, one at least, with bins of the coarsest level."""
    level = max(each.level for each in nodes)
    return nodes[0] if len(nodes) == 1 else _summed([_coarser(each, level) for each in nodes])


def for_window(node: NodeSums, window_ns: tuple[int, int]) -> NodeSums:
    """Return a node with as many bins as suit its window."""
    level = max(node.level, _level(window_ns, len(np.unique(node.bins.cell))))
    return node if level == node.level else _summed([_coarser(node, level)])


def _level(window_ns: tuple[int, int], n_kinds: int) -> int:
    n_bins = max(LEAST_BINS, min(MAX_BINS, _MOST_SUMS // max(n_kinds, 1)))
    return level_for(window_ns[1] - window_ns[0], n_bins)


def _coarser(node: NodeSums, level: int) -> NodeSums:
    shift = level - node.level
    return node._replace(
        level=level,
        bins=node.bins._replace(bin=node.bins.bin >> shift),
        waits=node.waits._replace(bin=node.waits.bin >> shift),
    )


def _summed(nodes: Sequence[NodeSums]) -> NodeSums:
    """Return the sums of nodes of one level."""
    return NodeSums(
        nodes[0].level,
        _grouped(CellSums(*_joined([each.cells for each in nodes])), 1),
        _grouped(BinSums(*_joined([each.bins for each in nodes])), 2),
        _grouped(WaitCounts(*_joined([each.waits for each in nodes])), 3),
    )


def _in_bins(
    level: int,
    key: Int32s,
    t0_ns: Int64s,
    wall_ns: Int64s,
    weights: Sequence[Int64s],
    n_keys: int,
    first: int,
    n_bins: int,
) -> Iterator[Floats]:
    """Yield each of some weights by key and bin, in whole nanoseconds."""
    at = t0_ns // step_ns(level)
    is_in_one = (t0_ns + wall_ns) // step_ns(level) == at
    slot = (key[is_in_one] * n_bins + (at[is_in_one] - first)).astype(np.int64)
    others = np.flatnonzero(~is_in_one)
    rows = np.arange(n_keys, dtype=np.int32)
    for weight in weights:
        found = np.bincount(slot, weight[is_in_one], n_keys * n_bins).reshape(n_keys, n_bins)
        rest = growth_of(level, key[others], t0_ns[others], wall_ns[others], weight[others])
        yield np.rint(found + bins([rest], rows, n_keys, first, n_bins))


def _numbered(numbers: Int32s, end: int) -> tuple[Int32s, Int32s]:
    """Return the distinct numbers in order, and for each number its place among them.

    Args:
        numbers: from 0 on.
        end: they are all smaller.
    """
    is_used = np.zeros(end, bool)
    is_used[numbers] = True
    found = np.flatnonzero(is_used).astype(np.int32)
    place = np.empty(end, np.int32)
    place[found] = np.arange(len(found), dtype=np.int32)
    return found, place[numbers]


def _added(at: Int32s, weight: Int64s, length: int) -> Int64s:
    sums = np.zeros(length, np.int64)
    np.add.at(sums, at, weight)
    return sums


def _joined(tables: Sequence[Sequence[npt.NDArray[Any]]]) -> list[npt.NDArray[Any]]:
    return [np.concatenate(column) for column in zip(*tables, strict=True)]


def _grouped(table: Table, n_keys: int) -> Table:
    """Return a table with each key once; the first ``n_keys`` columns are the key."""
    columns: Sequence[npt.NDArray[Any]] = table
    keys, weights = columns[:n_keys], columns[n_keys:]
    if not len(keys[0]):
        return table
    order = np.lexsort(keys[::-1])
    keys = [each[order] for each in keys]
    is_new = np.ones(len(order), bool)
    is_new[1:] = np.any([each[1:] != each[:-1] for each in keys], axis=0)
    at = np.flatnonzero(is_new)
    found: list[npt.NDArray[Any]] = [each[at] for each in keys]
    return type(table)(*found, *(np.add.reduceat(each[order], at) for each in weights))
