"""Read the intervals of a long recording, and their sums, from its file when they are wanted."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from ..errors import InputError
from ..wire.decoder import MAX_NS
from .chunks import Chunk, ChunkReader, DamageError
from .profile.interval_chunk import ROW_DTYPE, Rows, check_rows
from .profile.node_sums import BinSums, CellSums, NodeSums, WaitCounts
from .profile.stored import FAN, Node, StoredNodes
from .profile.time_bins import MAX_LEVEL
from .profile.wait_rows import WAIT_ROWS
from .sums_writer import LOCKS, MAX_LEVELS, SUMS

_MAX_SUM = 1 << 60
_INT32 = ("cell", "bin", "row")

Read = TypeVar("Read")
Table = TypeVar("Table", CellSums, BinSums, WaitCounts)


class Nodes:
    """The nodes of a file, as they are found in it."""

    def __init__(self) -> None:
        self.levels: list[list[Node]] = []
        self.singles: list[Rows] = []
        self.origin_ns = 0

    def add(self, node: Node, origin_ns: int) -> None:
        """Add the next node of its level.

        Raises:
            DamageError: it does not follow from those before it.
        """
        if not self.levels:
            self.origin_ns = origin_ns
        while len(self.levels) <= min(node.level, MAX_LEVELS):
            self.levels.append([])
        own = self.levels[node.level] if 0 <= node.level <= MAX_LEVELS else None
        before = own[-1].end_ns if own else self.origin_ns
        follows = node.start_ns == before < node.end_ns < MAX_NS
        if own is None or origin_ns != self.origin_ns or not follows:
            raise DamageError("its sums are not of one time after another")
        if not 0 <= node.bins_level <= MAX_LEVEL or not 0 <= node.first_ns < node.end_ns:
            raise DamageError("its sums have an impossible time")
        if node.level:
            below = self.levels[node.level - 1]
            children = below[FAN * len(own) : FAN * (len(own) + 1)]
            if len(children) < FAN or children[-1].end_ns != node.end_ns:
                raise DamageError("its sums are of others than those before them")
        elif not 0 <= node.rows_at <= node.offset or not 0 <= node.locks_at <= node.offset:
            raise DamageError("its sums are of nothing")
        own.append(node)

    def stored(self, path: str, n_cells: int) -> StoredNodes:
        """Return the nodes with a reader of their file."""
        singles = np.concatenate([np.empty(0, ROW_DTYPE), *self.singles])
        return StoredNodes(self.levels, singles, self.origin_ns, FileNodes(path, n_cells))


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
    columns = [chunk.column(name, "i8").tolist() for name in Node._fields]
    if len({len(each) for each in columns}) != 1:
        raise DamageError("its index has columns of different lengths")
    origin_ns = _whole(chunk.facts, "origin_ns")
    for values in zip(*columns, strict=True):
        found.add(Node(*values), origin_ns)
    found.singles.append(rows_of(chunk, "single"))
    return found


def rows_of(chunk: Chunk, of: str) -> Rows:
    """Return the intervals of a chunk; their starts are as they are stored.

    Args:
        chunk: the chunk.
        of: what the names of their columns begin with.

    Raises:
        DamageError: they make no sense.
    """
    columns = {
        name: chunk.column(f"{of}.{name}", ROW_DTYPE[name]) for name in ROW_DTYPE.names or ()
    }
    lengths = {len(each) for each in columns.values()}
    if len(lengths) != 1:
        raise DamageError("its intervals have columns of different lengths")
    rows: Rows = np.empty(lengths.pop(), ROW_DTYPE)
    for name, column in columns.items():
        rows[name] = column
    return rows


def ended_rows(chunk: Chunk) -> Rows:
    """Return the intervals of a chunk that have ended. Raises DamageError."""
    rows = rows_of(chunk, "rows")
    rows["t0_ns"] = np.cumsum(rows["t0_ns"])
    return rows


class FileNodes:
    """Reads the nodes of a file: see ``NodeReader``. Any thread may call.

    Args:
        path: of the file.
        n_cells: how many cells there are.
    """

    def __init__(self, path: str, n_cells: int) -> None:
        self._path = path
        self._n_cells = n_cells
        self._lock = threading.Lock()
        self._file = open(path, "rb")  # noqa: SIM115 - as long as somebody reads
        weakref.finalize(self, self._file.close)
        self._reader = ChunkReader(self._file, path)

    def sums(self, node: Node) -> NodeSums:
        """Return its sums. Raises InputError."""
        return self._read(node, self._sums)

    def rows(self, node: Node) -> Rows:
        """Return its intervals. Raises InputError."""
        return self._read(node, self._rows)

    def lock_rows(self, node: Node) -> Rows:
        """Return its intervals that have something to do with a lock. Raises InputError."""
        return self._read(node, self._lock_rows)

    def _read(self, node: Node, read: Callable[[Node], Read]) -> Read:
        try:
            with self._lock:
                return read(node)
        except (OSError, ValueError) as error:
            raise InputError(
                f"cannot read {self._path} at byte {node.offset:,}: {error}",
                "open it again: what can be read is shown then",
            ) from error

    def _chunk(self, node: Node) -> Chunk:
        chunk = self._reader.at(node.offset)
        if chunk is None or chunk.kind != SUMS:
            raise DamageError("there are no sums")
        return chunk

    def _sums(self, node: Node) -> NodeSums:
        chunk = self._chunk(node)
        return NodeSums(
            node.bins_level,
            self._table(chunk, "cells", CellSums),
            self._table(chunk, "bins", BinSums),
            self._table(chunk, "waits", WaitCounts),
        )

    def _table(self, chunk: Chunk, name: str, kind: type[Table]) -> Table:
        columns: dict[str, npt.NDArray[Any]] = {
            each: chunk.column(f"{name}.{each}", "i4" if each in _INT32 else "i8")
            for each in kind._fields
        }
        if len({len(each) for each in columns.values()}) != 1:
            raise DamageError("its sums have columns of different lengths")
        ends = {"cell": self._n_cells, "row": WAIT_ROWS, "bin": 1 << 31}
        for each, column in columns.items():
            is_signed = each == "bin"
            least, end = -(1 << 31) if is_signed else 0, ends.get(each, _MAX_SUM)
            if len(column) and not least <= int(column.min()) <= int(column.max()) < end:
                raise DamageError(f"its sums have an impossible {each}")
        if kind is CellSums and (np.diff(columns["cell"]) <= 0).any():
            raise DamageError("its sums are not in order")
        return kind(**columns)

    def _rows(self, node: Node) -> Rows:
        found: list[Rows] = []
        for chunk in self._reader.from_place(node.rows_at):
            if chunk.offset >= node.offset:
                break
            if chunk.kind == "GAIN":
                found.append(ended_rows(chunk))
        rows = np.concatenate([np.empty(0, ROW_DTYPE), *found])
        if not len(rows):
            raise DamageError("there are no intervals")
        check_rows(rows, self._n_cells)
        return rows

    def _lock_rows(self, node: Node) -> Rows:
        if not node.locks_at:
            return np.empty(0, ROW_DTYPE)
        chunk = self._reader.at(node.locks_at)
        if chunk is None or chunk.kind != LOCKS:
            raise DamageError("there are no waits for locks")
        rows = rows_of(chunk, "lock")
        check_rows(rows, self._n_cells)
        return rows


def _whole(facts: Any, name: str) -> int:
    value = facts.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < MAX_NS:
        raise DamageError(f"its sums have an impossible {name}")
    return value
