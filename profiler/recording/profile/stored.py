"""The intervals of a long recording that stay in its file, and the sums that stand for them.

The file has nodes (``node_sums``): those of level 0 have some ten thousand intervals each, those of
the next level are merged from ``FAN`` of the level below, and so on. A view adds up few nodes, and
reads the intervals of two or three: those at the edges of what it shows.

Any thread may call. All times are nanoseconds of the target's CLOCK_MONOTONIC.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from ...model import Clock
from .interval_chunk import MAX_SUM_NS, Block, Rows, block_of, cut, joined, total_of
from .node_sums import CellSums, NodeSums, is_inside

FAN = 4
_KEPT_BYTES = 64 << 20  # of intervals, and of sums
_COLUMN = {Clock.WALL: "wall_ns", Clock.CPU: "cpu_ns", Clock.OFF_CPU: "off_ns"}

Key = TypeVar("Key")
Value = TypeVar("Value")


class Node(NamedTuple):
    """One node, as the index of a file has it."""

    level: int
    start_ns: int  # its window
    end_ns: int
    first_ns: int  # start of its earliest interval
    bins_level: int  # of its bins (``time_bins``)
    offset: int  # where its sums are in the file
    rows_at: int  # where the chunks with its intervals begin, which end at ``offset``; level 0
    locks_at: int  # where those intervals are once more that have to do with locks; 0 for none


class NodeReader(Protocol):
    """Reads what a file has of a node. Any thread may call. Raises InputError."""

    def sums(self, node: Node) -> NodeSums:
        """Return its sums."""
        ...

    def rows(self, node: Node) -> Rows:
        """Return its intervals; of level 0."""
        ...

    def lock_rows(self, node: Node) -> Rows:
        """Return those of its intervals that have something to do with a lock; of level 0."""
        ...

    def check_total(self, total_ns: float) -> None:
        """Refuse times that add up to more than 64 bits hold."""
        ...


class StoredNodes(NamedTuple):
    """All nodes of a file."""

    levels: Sequence[Sequence[Node]]  # in the order of the file
    singles: Rows  # the intervals that are not inside the windows of their nodes
    origin_ns: int  # the time of edge 0 of all bins
    reader: NodeReader


class StoredIntervals:
    """The intervals in a file; see the module docstring.

    Args:
        stored: the nodes.
        thread_of: returns the threads of some cells.

    Attributes:
        singles: the intervals that are not inside the windows of their nodes.
        origin_ns: the time of edge 0 of all bins.
        chunks: the nodes of level 0, each as a chunk of intervals.
    """

    def __init__(
        self,
        stored: StoredNodes,
        thread_of: Callable[[npt.NDArray[np.int32]], npt.NDArray[np.uint32]],
    ) -> None:
        nodes, reader = stored.levels, stored.reader
        self._levels = nodes
        self.singles = stored.singles
        self.origin_ns = stored.origin_ns
        self._reader = reader
        # Nothing here refers back to what holds it: what is closed is gone at once.
        read_rows = partial(_read_rows, reader, thread_of)
        self._rows: _Kept[Node, _ByThread] = _Kept(read_rows, lambda rows: rows.n_bytes)
        self._sums: _Kept[Node, NodeSums] = _Kept(reader.sums, lambda sums: sums.n_bytes)
        first = nodes[0] if nodes else ()
        self.chunks = [StoredChunk(node, self._rows, reader) for node in first]

    def root_sums(self) -> Iterator[CellSums]:
        """Yield the sums that make up those of all intervals but the single ones.

        Raises:
            ValueError: with these, they do not fit into 64 bits.
        """
        total_ns = total_of(block_of(self.singles))
        for node, _, _ in self._roots():
            found = self.sums(node).cells
            total_ns += found.total_ns
            if total_ns > MAX_SUM_NS:
                raise ValueError("its times add up to more than 36 years")
            yield found

    def check_total(self, total_ns: float) -> None:
        """Raise InputError if times of parts add up to more than 64 bits hold."""
        self._reader.check_total(total_ns)

    def sums(self, node: Node) -> NodeSums:
        """Return the sums of a node."""
        return self._sums.get(node)

    def inside(self, node: Node) -> Block:
        """Return the intervals that are inside the window of a node of level 0."""
        block = self._rows.get(node).read(None)
        return block.take(is_inside(block, (node.start_ns, node.end_ns)))

    def add_span(
        self, weight: npt.NDArray[np.int64], clock: Clock, start_ns: int, end_ns: int
    ) -> Block:
        """Add the weights of whole nodes in a range of time to those of their cells.

        Returns:
            the rest: intervals, cut to the range.

        Raises:
            InputError: they cannot be read, or are larger than those of all nodes together.
        """
        whole, edges = self._cover(
            start_ns, end_ns, lambda node: node.start_ns >= start_ns and node.end_ns <= end_ns
        )
        total_ns = 0.0
        for node in whole:
            cells = self.sums(node).cells
            total_ns += cells.total_ns
            self.check_total(total_ns)
            weight[cells.cell] += getattr(cells, _COLUMN[clock])
        rest = [block_of(self.singles), *map(self.inside, edges)]
        found = joined([cut(each, start_ns, end_ns) for each in rest])
        self.check_total(total_ns + total_of(found))
        return found

    def for_bins(self, level: int, start_ns: int, end_ns: int) -> tuple[list[Node], list[Node]]:
        """Return the nodes that bins of a range of time are summed up from.

        Args:
            level: of the bins (``time_bins``).
            start_ns: start of the range.
            end_ns: its end.

        Returns:
            those that have bins of this level or finer ones, few and wide ones; and those of level
            0 that have coarser ones, whose intervals have to be read.
        """
        return self._cover(start_ns, end_ns, lambda node: node.bins_level <= level)

    def _cover(
        self, start_ns: int, end_ns: int, suits: Callable[[Node], bool]
    ) -> tuple[list[Node], list[Node]]:
        """Return the nodes that make up a range of time.

        Args:
            start_ns: start of the range.
            end_ns: its end.
            suits: tells of a node whether its sums are what is wanted.

        Returns:
            those that suit, as wide as possible; and those of level 0 that do not.
        """
        suiting: list[Node] = []
        others: list[Node] = []

        def visit(node: Node, level: int, index: int) -> None:
            if node.start_ns >= end_ns or node.end_ns < start_ns:
                return
            if suits(node):
                suiting.append(node)
            elif level == 0:
                others.append(node)
            else:
                for child in self._children(level, index):
                    visit(*child)

        for root in self._roots():
            visit(*root)
        return suiting, others

    def _roots(self) -> Iterator[tuple[Node, int, int]]:
        for level, nodes in enumerate(self._levels):
            above = self._levels[level + 1] if level + 1 < len(self._levels) else ()
            for index in range(FAN * len(above), len(nodes)):
                yield nodes[index], level, index

    def _children(self, level: int, index: int) -> Iterator[tuple[Node, int, int]]:
        for child in range(FAN * index, FAN * (index + 1)):
            yield self._levels[level - 1][child], level - 1, child


class _ByThread:
    """Intervals by thread and time, as ``Chunk`` has them. Immutable: several threads may read."""

    def __init__(self, rows: Rows, thread_id: npt.NDArray[np.uint32]) -> None:
        order = np.lexsort((rows["t0_ns"], thread_id))
        self._block = block_of(rows).take(order)
        self._thread_id = thread_id[order]
        self.n_bytes = sum(column.nbytes for column in (*self._block, thread_id))

    def read(self, thread_id: int | None) -> Block:
        if thread_id is None:
            return self._block
        first, last = np.searchsorted(self._thread_id, (thread_id, thread_id + 1))
        return self._block.take(slice(first, last))


def _read_rows(
    reader: NodeReader,
    thread_of: Callable[[npt.NDArray[np.int32]], npt.NDArray[np.uint32]],
    node: Node,
) -> _ByThread:
    rows = reader.rows(node)
    return _ByThread(rows, thread_of(rows["cell"]))


class StoredChunk:
    """The intervals of a node of level 0, read when they are wanted: see ``Chunk``."""

    def __init__(self, node: Node, rows: _Kept[Node, _ByThread], reader: NodeReader) -> None:
        self._node = node
        self._rows = rows
        self._reader = reader
        self.start_ns = node.first_ns
        self.end_ns = node.end_ns

    def read(self, thread_id: int | None = None) -> Block:
        """Return all rows, or those of one thread in order of time."""
        return self._rows.get(self._node).read(thread_id)

    def with_lock(self, column: str) -> tuple[Block, npt.NDArray[Any]]:
        """Return the rows that have one of ``LOCK_COLUMNS``, and what they have there."""
        rows = self._reader.lock_rows(self._node)
        rows = rows[rows[column] != 0]
        return block_of(rows), rows[column]


class _Kept(Generic[Key, Value]):
    """The values made last, up to a number of bytes."""

    def __init__(self, make: Callable[[Key], Value], n_bytes: Callable[[Value], int]) -> None:
        self._make = make
        self._n_bytes = n_bytes
        self._lock = threading.Lock()
        self._values: OrderedDict[Key, Value] = OrderedDict()
        self._bytes = 0

    def get(self, key: Key) -> Value:
        """Return the value of a key, made now if it is not kept."""
        with self._lock:
            if key in self._values:
                self._values.move_to_end(key)
                return self._values[key]
        value = self._make(key)
        with self._lock:
            if key not in self._values:
                self._values[key] = value
                self._bytes += self._n_bytes(value)
            while self._bytes > _KEPT_BYTES and len(self._values) > 1:
                self._bytes -= self._n_bytes(self._values.popitem(last=False)[1])
        return value
