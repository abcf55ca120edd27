"""Read the intervals of a long recording, and their sums, from its file when they are wanted."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any, BinaryIO, TypeVar

import numpy as np
import numpy.typing as npt

from ..errors import InputError
from ..wire.decoder import MAX_NS
from .chunks import HEADER, Chunk, ChunkReader, DamageError
from .profile.interval_chunk import (
    MAX_SUM_NS,
    ROW_DTYPE,
    Rows,
    block_of,
    check_rows,
    joined_rows,
    total_of,
)
from .profile.node_sums import MAX_BINS, BinSums, CellSums, NodeSums, WaitCounts
from .profile.stored import FAN, Node, StoredNodes
from .profile.time_bins import MAX_LEVEL, step_ns
from .profile.wait_rows import WAIT_ROWS
from .row_columns import ended_rows, rows_of
from .sums_writer import (
    LOCKS,
    MAX_LEVELS,
    MAX_NODE_ROWS,
    MAX_NODES,
    MAX_SINGLES,
    MAX_SUMS,
    SUMS,
)

_WANTED = ("GAIN", SUMS, LOCKS)
_INT32 = ("cell", "bin", "row")

Read = TypeVar("Read")
Table = TypeVar("Table", CellSums, BinSums, WaitCounts)


class Nodes:
    """The nodes of a file, as they are found in it."""

    def __init__(self) -> None:
        self.levels: list[list[Node]] = []
        self.singles: list[Rows] = []
        self.origin_ns = 0
        self._n_singles = 0

    def add(self, node: Node, origin_ns: int) -> None:
        """Add the next node of its level.

        Raises:
            DamageError: it does not follow from those before it.
        """
        self._check(node, origin_ns)
        self.levels[node.level].append(node)

    def _check(self, node: Node, origin_ns: int) -> None:
        if not self.levels:
            self.origin_ns = origin_ns
        if not 0 <= node.level <= MAX_LEVELS or origin_ns != self.origin_ns:
            raise DamageError("its sums are not of one time after another")
        while len(self.levels) <= node.level:
            self.levels.append([])
        own = self.levels[node.level]
        if len(own) == MAX_NODES:
            raise DamageError("it has more sums than any recording")
        before = own[-1].end_ns if own else self.origin_ns
        if not node.start_ns == before < node.end_ns < MAX_NS:
            raise DamageError("its sums are not of one time after another")
        if not 0 <= node.bins_level <= MAX_LEVEL or not 0 <= node.first_ns < MAX_NS:
            raise DamageError("its sums have an impossible time")
        if node.end_ns - node.start_ns > MAX_BINS * step_ns(node.bins_level):
            raise DamageError("its sums have too many bins")
        # Each byte of the file is of one node of a level at most: it is read once for all of them.
        free = own[-1].offset + 1 if own else HEADER.size
        if node.level:
            below = self.levels[node.level - 1]
            children = below[FAN * len(own) : FAN * (len(own) + 1)]
            if len(children) < FAN or children[-1].end_ns != node.end_ns:
                raise DamageError("its sums are of others than those before them")
            free = max(free, children[-1].offset + 1)
        elif not free <= node.rows_at < node.offset:
            raise DamageError("its sums are of nothing")
        elif node.locks_at and not free <= node.locks_at < node.offset:
            raise DamageError("its waits for locks are not before its sums")
        if node.offset < free:
            raise DamageError("its sums are not one after another")

    def add_next(self, chunk: Chunk, n_cells: int) -> None:
        """Add the next node of the file; all before it have been added.

        Args:
            chunk: its sums.
            n_cells: how many cells there are.

        Raises:
            DamageError: it does not follow from those, or its sums make no sense.
            ValueError: an interval beside its sums makes no sense.
        """
        node, origin_ns = node_of(chunk)
        if self._n_unmerged(node.level) >= FAN:
            raise DamageError("sums are missing")
        self._check(node, origin_ns)
        sums_in(chunk, node, origin_ns, n_cells)
        if node.level == 0:
            singles = singles_of(chunk)
            check_rows(singles, n_cells)
            self._n_singles += len(singles)
            if self._n_singles > MAX_SINGLES:
                raise DamageError("it has too many intervals beside its sums")
            self.singles.append(singles)
        self.levels[node.level].append(node)

    def check(self) -> None:
        """Raise DamageError if sums are missing: all of the file would have to be added up."""
        if any(self._n_unmerged(level) > FAN for level in range(len(self.levels))):
            raise DamageError("sums are missing")

    def _n_unmerged(self, level: int) -> int:
        own, above = (
            len(each[0]) if each else 0
            for each in (self.levels[level : level + 1], self.levels[level + 1 : level + 2])
        )
        return own - FAN * above

    def stored(self, file: BinaryIO, path: str, n_cells: int) -> StoredNodes:
        """Return the nodes with a reader of their file.

        Args:
            file: open for reading.
            path: its name.
            n_cells: how many cells there are.

        Raises:
            InputError: another file has this name by now.
        """
        singles = joined_rows(self.singles)
        reader = FileNodes(file, path, n_cells, self.origin_ns)
        return StoredNodes(self.levels, singles, self.origin_ns, reader)


def node_of(chunk: Chunk) -> tuple[Node, int]:
    """Return the node of a chunk of sums, and the time of edge 0 of its bins.

    Raises:
        DamageError: it has impossible numbers.
    """
    facts = chunk.facts
    level, n_bytes = _whole(facts, "level"), _whole(facts, "bytes")
    lock_bytes = _whole(facts, "lock_bytes")
    node = Node(
        level,
        _whole(facts, "start_ns"),
        _whole(facts, "end_ns"),
        _whole(facts, "first_ns"),
        _whole(facts, "bins_level"),
        chunk.offset,
        chunk.offset - n_bytes if level == 0 else 0,
        chunk.offset - lock_bytes if lock_bytes else 0,
    )
    return node, _whole(facts, "origin_ns")


def nodes_of(chunk: Chunk) -> Nodes:
    """Return the nodes that an index has.

    Raises:
        DamageError: they make no sense.
    """
    found = Nodes()
    columns = [chunk.column(name, "i8") for name in Node._fields]
    if len({len(each) for each in columns}) != 1:
        raise DamageError("its index has columns of different lengths")
    if len(columns[0]) > 2 * MAX_NODES:
        raise DamageError("it has more sums than any recording")
    origin_ns = _whole(chunk.facts, "origin_ns")
    for values in zip(*(each.tolist() for each in columns), strict=True):
        found.add(Node(*values), origin_ns)
    found.check()
    found.singles.append(singles_of(chunk))
    return found


def singles_of(chunk: Chunk) -> Rows:
    """Return the intervals that are kept beside sums. Raises DamageError."""
    return rows_of(chunk, "single", MAX_SINGLES)


class FileNodes:
    """Reads the nodes of a file: see ``NodeReader``. Any thread may call.

    Args:
        file: open for reading.
        path: its name.
        n_cells: how many cells there are.
        origin_ns: the time of edge 0 of all bins.

    Raises:
        InputError: another file has this name by now.
    """

    def __init__(self, file: BinaryIO, path: str, n_cells: int, origin_ns: int) -> None:
        self._path = path
        self._n_cells = n_cells
        self._origin_ns = origin_ns
        self._totals_ns: dict[int, float] = {}  # of intervals, by the offsets of their nodes
        self._lock = threading.Lock()
        self._file = open(path, "rb")  # noqa: SIM115 - as long as somebody reads
        weakref.finalize(self, self._file.close)
        if not os.path.samestat(os.fstat(file.fileno()), os.fstat(self._file.fileno())):
            raise InputError(f"{path} has been replaced while it was read", "open it again")
        self._reader = ChunkReader(self._file, path, lambda kind, _: kind in _WANTED)

    def sums(self, node: Node) -> NodeSums:
        """Return its sums. Raises InputError."""
        return self._read(node, self._sums)

    def rows(self, node: Node) -> Rows:
        """Return its intervals. Raises InputError."""
        return self._read(node, self._rows)

    def lock_rows(self, node: Node) -> Rows:
        """Return its intervals that have something to do with a lock. Raises InputError."""
        return self._read(node, self._lock_rows)

    def check_total(self, total_ns: float) -> None:
        """Refuse times that add up to more than 64 bits hold."""
        if total_ns > MAX_SUM_NS:
            raise InputError(
                f"{self._path} is damaged: the sums of its parts are larger than those of all",
                "record again",
            )

    def _read(self, node: Node, read: Callable[[Node], Read]) -> Read:
        try:
            with self._lock:
                return read(node)
        except (OSError, ValueError) as error:
            raise InputError(
                f"cannot read {self._path} at byte {node.offset:,}: {error}",
                "open it again, or another part of its time",
            ) from error

    def _chunk(self, node: Node) -> Chunk:
        chunk = self._reader.at(node.offset)
        if chunk is None or chunk.kind != SUMS or node_of(chunk) != (node, self._origin_ns):
            raise DamageError("there are no such sums")
        return chunk

    def _sums(self, node: Node) -> NodeSums:
        return sums_in(self._chunk(node), node, self._origin_ns, self._n_cells)

    def _rows(self, node: Node) -> Rows:
        found: list[Rows] = []
        n_rows, is_whole = 0, False
        for chunk in self._reader.from_place(node.rows_at):
            is_whole = chunk.offset == node.offset
            if chunk.offset >= node.offset:
                break
            if chunk.kind == "GAIN":
                found.append(ended_rows(chunk))
                n_rows += len(found[-1])
                if n_rows > MAX_NODE_ROWS:
                    raise DamageError("there are too many intervals")
        if not n_rows or not is_whole:
            raise DamageError("intervals are missing")
        rows = joined_rows(found)
        check_rows(rows, self._n_cells)
        if int(rows["t0_ns"].min()) != node.first_ns:
            raise DamageError("there are other intervals")
        self._totals_ns[node.offset] = total_of(block_of(rows))
        if sum(self._totals_ns.values()) > MAX_SUM_NS:
            raise DamageError("intervals last for more than 36 years")
        return rows

    def _lock_rows(self, node: Node) -> Rows:
        if not node.locks_at:
            return np.empty(0, ROW_DTYPE)
        chunk = self._reader.at(node.locks_at)
        if chunk is None or chunk.kind != LOCKS:
            raise DamageError("there are no waits for locks")
        rows = rows_of(chunk, "lock", MAX_NODE_ROWS)
        check_rows(rows, self._n_cells)
        return rows


def sums_in(chunk: Chunk, node: Node, origin_ns: int, n_cells: int) -> NodeSums:
    """Return the sums that a chunk has of a node.

    Args:
        chunk: of sums.
        node: its node.
        origin_ns: the time of edge 0 of its bins.
        n_cells: how many cells there are.

    Raises:
        DamageError: they make no sense.
    """
    step = step_ns(node.bins_level)
    bins = (node.start_ns - origin_ns) // step, (node.end_ns - origin_ns) // step
    limits = {"cell": (0, n_cells), "row": (0, WAIT_ROWS), "bin": (bins[0], bins[1] + 1)}
    found = NodeSums(
        node.bins_level,
        _table(chunk, "cells", CellSums, limits),
        _table(chunk, "bins", BinSums, limits),
        _table(chunk, "waits", WaitCounts, limits),
    )
    if found.cells.total_ns > MAX_SUM_NS:
        raise DamageError("its sums are too large")
    return found


def _table(
    chunk: Chunk, name: str, kind: type[Table], limits: Mapping[str, tuple[int, int]]
) -> Table:
    """Return a table of sums, whose keys ascend and are in some limits."""
    if max(len(chunk.columns.get(f"{name}.{each}", ())) for each in kind._fields) > MAX_SUMS:
        raise DamageError("its sums are too many")
    columns: dict[str, npt.NDArray[Any]] = {
        each: chunk.column(f"{name}.{each}", "i4" if each in _INT32 else "i8")
        for each in kind._fields
    }
    if len({len(each) for each in columns.values()}) != 1:
        raise DamageError("its sums have columns of different lengths")
    for each, column in columns.items():
        least, end = limits.get(each, (0, MAX_SUM_NS))
        if len(column) and not least <= int(column.min()) <= int(column.max()) < end:
            raise DamageError(f"its sums have an impossible {each}")
    if not _ascend([columns[each] for each in ("cell", "bin", "row") if each in columns]):
        raise DamageError("its sums are not in order")
    return kind(**columns)


def _ascend(keys: Sequence[npt.NDArray[Any]]) -> bool:
    """Tell whether rows ascend by their keys, and none is there twice."""
    equal = np.ones(max(0, len(keys[0]) - 1), bool)
    for key in keys:
        if (equal & (key[1:] < key[:-1])).any():
            return False
        equal &= key[1:] == key[:-1]
    return not equal.any()


def _whole(facts: Any, name: str) -> int:
    value = facts.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < MAX_NS:
        raise DamageError(f"its sums have an impossible {name}")
    return value
