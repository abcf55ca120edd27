"""Pack many intervals into an immutable chunk of 16 bytes a row.

Weights are exact. Start times have a resolution of 2^-32 of the chunk's time span: some tens of
nanoseconds for a minute, a microsecond for an hour. They only decide which rows a time range
overlaps.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from ...wire.decoder import MAX_NS

# Of a chunk, with some slack for wide numbers.
BYTES_A_ROW = 16

Int64s = npt.NDArray[np.int64]
Rows = npt.NDArray[np.void]  # of ROW_DTYPE

# An interval before it is packed. All times and durations are nanoseconds.
ROW_DTYPE = np.dtype(
    [
        ("t0_ns", "i8"),
        ("wall_ns", "i8"),
        ("cpu_ns", "i8"),
        ("samples", "i8"),
        ("cell", "i4"),
        ("holder_id", "u4"),  # the thread that holds the lock it waits for; 0 if not known
        ("awaited_lock", "u2"),  # number of that lock; 0 if not known
        ("held_lock", "u2"),  # number of a lock that it held and others waited for; 0 for none
    ]
)
_WHOLE_ROW = np.dtype((np.void, ROW_DTYPE.itemsize))
MAX_SUM_NS = 1 << 60  # 36 years: sums of weights fit into 64 bits
LOCK_COLUMNS = "holder_id", "awaited_lock", "held_lock"


def joined_rows(parts: Iterable[Rows]) -> Rows:
    """Return the rows of several arrays, one after another.

    As bytes: to compare the types of all fields would take eight times as long.
    """
    whole = [np.empty(0, _WHOLE_ROW), *(each.view(_WHOLE_ROW) for each in parts)]
    rows: Rows = np.concatenate(whole).view(ROW_DTYPE)
    return rows


def check_rows(rows: Rows, n_cells: int) -> None:
    """Check rows that a file gives.

    Raises:
        ValueError: one is of a cell that is not there, or has an impossible time or number.
    """
    if ((rows["cell"] < 0) | (rows["cell"] >= n_cells)).any():
        raise ValueError("an interval is of a sum that is not there")
    for name in ("t0_ns", "wall_ns", "cpu_ns", "samples"):
        end = 1 << 32 if name == "samples" else MAX_NS
        if ((rows[name] < 0) | (rows[name] >= end)).any():
            raise ValueError("an interval has an impossible time")


class Block(NamedTuple):
    """Intervals in columns, without sample counts, which are only kept per cell."""

    t0_ns: Int64s
    wall_ns: Int64s
    cpu_ns: Int64s
    cell: npt.NDArray[np.int32]

    def take(self, rows: npt.NDArray[Any] | slice) -> Block:
        """Return some of the rows, by their numbers, by a mask or from one to another."""
        return Block(self.t0_ns[rows], self.wall_ns[rows], self.cpu_ns[rows], self.cell[rows])


def joined(blocks: Sequence[Block]) -> Block:
    """Return the rows of several blocks, one after another."""
    return Block(
        np.concatenate([np.empty(0, np.int64), *(each.t0_ns for each in blocks)]),
        np.concatenate([np.empty(0, np.int64), *(each.wall_ns for each in blocks)]),
        np.concatenate([np.empty(0, np.int64), *(each.cpu_ns for each in blocks)]),
        np.concatenate([np.empty(0, np.int32), *(each.cell for each in blocks)]),
    )


def block_of(rows: Rows) -> Block:
    """Return unpacked rows as a block."""
    return Block(rows["t0_ns"], rows["wall_ns"], rows["cpu_ns"], rows["cell"])


def total_of(block: Block) -> float:
    """Return the sum of all times, which may be larger than what fits into 64 bits."""
    return float(block.wall_ns.sum(dtype=np.float64) + block.cpu_ns.sum(dtype=np.float64))


def cut(block: Block, t0_ns: int, t1_ns: int) -> Block:
    """Return the parts of the intervals between two times; those outside have weight 0.

    What began before ``t0_ns`` begins there.
    """
    start, wall, cpu = block.t0_ns, block.wall_ns, block.cpu_ns
    inside = np.minimum(start + wall, t1_ns) - np.maximum(start, t0_ns)
    touches = (inside > 0) | ((wall == 0) & (inside == 0) & (start < t1_ns))
    inside = np.where(touches, inside, 0)
    cpu_inside = np.where(touches, cpu, 0)
    is_cut = touches & (inside < wall)
    cpu_inside[is_cut] = np.rint(cpu[is_cut] * (inside[is_cut] / wall[is_cut])).astype(np.int64)
    return Block(np.maximum(start, t0_ns), inside, cpu_inside, block.cell)


class _Narrow:
    """A column of non-negative 64-bit numbers in 4 bytes each.

    Most numbers fit into 32 bits. The upper halves of the few others are stored separately.
    """

    def __init__(self, numbers: npt.NDArray[Any]) -> None:
        self._low = numbers.astype(np.uint32)  # the lower 32 bits
        high = numbers >> 32
        self._wide_at = np.flatnonzero(high)
        self._wide_high = high[self._wide_at]

    def read(self, start: int, stop: int) -> Int64s:
        numbers = self._low[start:stop].astype(np.int64)
        first, last = np.searchsorted(self._wide_at, (start, stop))
        numbers[self._wide_at[first:last] - start] += self._wide_high[first:last] << 32
        return numbers


class _Sparse:
    """A column in which nearly all numbers are 0."""

    def __init__(self, numbers: npt.NDArray[Any]) -> None:
        self.at = np.flatnonzero(numbers).astype(np.int32)
        self.values = numbers[self.at]


class AnyChunk(Protocol):
    """Some intervals that stay as they are, in memory or in a file."""

    start_ns: int
    end_ns: int

    def read(self, thread_id: int | None = None) -> Block:
        """Return all rows, or those of one thread, by thread and then by time."""
        ...

    def with_lock(self, column: str) -> tuple[Block, npt.NDArray[Any]]:
        """Return the rows that have one of ``LOCK_COLUMNS``, and what they have there."""
        ...


class Chunk:
    """An immutable chunk of intervals; see the module docstring.

    Args:
        rows: the intervals, at least one.
        thread_ids: the thread of each row.

    Attributes:
        start_ns: start of the earliest interval.
        end_ns: end of the latest interval.
        last_cell: the greatest number of their cells.
    """

    def __init__(self, rows: Rows, thread_ids: npt.NDArray[np.uint32]) -> None:
        # Sort by thread, so that read() can return one thread's rows without a search.
        order = np.lexsort((rows["t0_ns"], thread_ids))
        rows = rows[order]
        self._threads, starts = np.unique(thread_ids[order], return_index=True)
        self._bounds = np.append(starts, len(order))
        self._length = len(rows)
        self.start_ns = int(rows["t0_ns"].min())
        self.end_ns = int((rows["t0_ns"] + rows["wall_ns"]).max())
        span_ns = int(rows["t0_ns"].max()) - self.start_ns
        self._shift = max(0, span_ns.bit_length() - 32)
        self._t0 = ((rows["t0_ns"] - self.start_ns) >> self._shift).astype(np.uint32)
        self._wall = _Narrow(rows["wall_ns"])
        self._cpu = _Narrow(rows["cpu_ns"])
        self._cell = rows["cell"].copy()
        # Few threads wait for a lock whose holder is known, or hold one.
        self._locks = {name: _Sparse(rows[name]) for name in LOCK_COLUMNS}
        self.last_cell = int(self._cell.max())

    def with_lock(self, column: str) -> tuple[Block, npt.NDArray[Any]]:
        """Return the rows that have one of ``LOCK_COLUMNS``, and what they have there."""
        found = self._locks[column]
        block = self.read() if len(found.at) else joined([])
        return block.take(found.at), found.values

    def read(self, thread_id: int | None = None) -> Block:
        """Return all rows, or those of one thread, by thread and then by time."""
        start, stop = 0, self._length
        if thread_id is not None:
            first, last = np.searchsorted(self._threads, (thread_id, thread_id + 1))
            start, stop = int(self._bounds[first]), int(self._bounds[last])
        return Block(
            (self._t0[start:stop].astype(np.int64) << self._shift) + self.start_ns,
            self._wall.read(start, stop),
            self._cpu.read(start, stop),
            self._cell[start:stop],
        )
