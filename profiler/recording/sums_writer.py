"""Make the sums that let a reader open a long recording without reading its intervals.

Whenever some ten thousand intervals have been appended to a file, a chunk with their sums follows
(``profile.node_sums``); of ``FAN`` such chunks, one that merges them; and so on.

Memory is bounded: after very many intervals that are not inside the windows of their nodes, or very
many nodes, no more are made. What follows in the file has to be read, then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from .chunks import Chunk, ChunkSizeError
from .profile.cell_kinds import KindsOfCells
from .profile.gains import Gains
from .profile.interval_chunk import LOCK_COLUMNS, ROW_DTYPE, Rows, block_of, joined_rows
from .profile.node_sums import NodeSums, for_window, is_inside, summed, sums_of
from .profile.store import Profile
from .profile.stored import FAN, Node
from .row_columns import columns_of

SUMS, LOCKS = "SUMS", "LOCK"
NODE_ROWS = 1 << 16
# Where many threads sleep for long, many intervals begin before the window of their node, and are
# kept one by one: a node is then for more intervals, of which these are a smaller part.
ROWS_A_SINGLE = 64
MOST_ROWS = 16 * NODE_ROWS
# Where next to nothing ends, the file has next to nothing but what goes on.
NODE_BYTES = 8 << 20
# An interval may end after the time up to which all are known: the agent goes round meanwhile.
ROUND_NS = 100_000_000
MAX_LEVELS = 16
MAX_NODES = 1 << 18  # of level 0: 10¹⁰ intervals
MAX_NODE_ROWS = 1 << 21
MAX_SINGLES = 1 << 21
MAX_SUMS = 1 << 22  # rows of one table
MOST_BYTES = 8 << 20
SUM_TABLES = ("cells", "bins", "waits")
_NO_ROWS: Rows = np.empty(0, ROW_DTYPE)


class SumsWriter:
    """Sums what is appended to a file; see the module docstring. One thread uses it at a time.

    Args:
        profile: what is written.

    Attributes:
        nodes: all nodes so far, by level.
        singles: the intervals that are not inside the windows of their nodes, node by node.
        origin_ns: the time of edge 0 of all bins.
    """

    def __init__(self, profile: Profile) -> None:
        self._profile = profile
        self._kinds = KindsOfCells()
        self._rows: list[Rows] = []
        self._n_rows = 0
        self._n_before = 0  # of these, began before the window
        self._n_singles = 0
        self._is_full = False
        self._rows_at = -1
        self._start_ns = 0  # of the window that begins
        # By level: the nodes that are not merged so far, and their sums; of large ones, one sum.
        self._unmerged: list[tuple[list[Node], list[NodeSums]]] = []
        self.nodes: list[list[Node]] = []
        self.singles: list[Rows] = []
        self.origin_ns = 0

    def add(self, gains: Gains, at: int) -> None:
        """Add what has been appended.

        Args:
            gains: what it was.
            at: the position of its first byte.
        """
        self.origin_ns = self.origin_ns or gains.start_ns
        self._start_ns = self._start_ns or gains.start_ns
        rows = gains.rows.ended
        if len(rows):
            if not self._rows:
                self._rows_at = at
            self._rows.append(rows)
            self._n_rows += len(rows)
            self._n_before += int(np.count_nonzero(rows["t0_ns"] < self._start_ns))

    @property
    def is_full(self) -> bool:
        """Return whether no further node can be made."""
        n_nodes = len(self.nodes[0]) if self.nodes else 0
        return self._is_full or self._n_rows > MAX_NODE_ROWS or n_nodes >= MAX_NODES

    def is_due(self, end: int) -> bool:
        """Return whether it is time for a node.

        Args:
            end: the size of the file.
        """
        if not self._n_rows:
            return False
        n_wanted = min(max(NODE_ROWS, ROWS_A_SINGLE * self._n_before), max(MOST_ROWS, NODE_ROWS))
        return self._n_rows >= n_wanted or end - self._rows_at >= NODE_BYTES

    @property
    def has_rows(self) -> bool:
        """Return whether intervals are in no node so far."""
        return self._n_rows > 0

    def make(self, now_ns: int, position: Callable[[], int]) -> Iterator[Chunk]:
        """Make a node of the intervals since the one before, one at least, and those above it.

        None if the intervals beside sums are too many by now: then, this is full.

        Args:
            now_ns: up to when the intervals were taken.
            position: returns where the next chunk that is yielded will be in the file.
        """
        rows = joined_rows(self._rows)
        end_ns = int((rows["t0_ns"] + rows["wall_ns"]).max())
        end_ns = max(now_ns, min(end_ns, now_ns + ROUND_NS))
        window_ns = self._start_ns, max(end_ns, self._start_ns + 1)
        self._kinds.extend(self._profile.cells_since(len(self._kinds)))
        inside = is_inside(block_of(rows), window_ns)
        n_singles = self._n_singles + int(np.count_nonzero(~inside))
        if n_singles > MAX_SINGLES:
            self._is_full = True
            return
        has_lock = np.any([rows[name] != 0 for name in LOCK_COLUMNS], axis=0)
        block, samples = block_of(rows).take(inside), rows["samples"][inside]
        sums = sums_of(block, samples, self._kinds.all(), window_ns, self.origin_ns)
        first_ns = int(rows["t0_ns"].min())
        locks_at = 0
        if has_lock.any():
            locks_at = position()
            yield Chunk(LOCKS, {}, columns_of("lock", rows[has_lock]))
        node = Node(0, *window_ns, first_ns, sums.level, position(), self._rows_at, locks_at)
        self.singles.append(rows[~inside])
        self._n_singles = n_singles
        self._rows, self._n_rows, self._n_before, self._start_ns = [], 0, 0, window_ns[1]
        yield sums_chunk(node, sums, self.origin_ns, rows[~inside])
        self._keep(node, sums)
        for level in range(MAX_LEVELS):
            children, below = self._unmerged[level]
            if len(children) < FAN:
                return
            window_ns = children[0].start_ns, children[-1].end_ns
            sums = for_window(summed(below), window_ns)
            first_ns = min(each.first_ns for each in children)
            node = Node(level + 1, *window_ns, first_ns, sums.level, position(), 0, 0)
            self._unmerged[level] = [], []
            yield sums_chunk(node, sums, self.origin_ns)
            self._keep(node, sums)

    def _keep(self, node: Node, sums: NodeSums) -> None:
        if len(self.nodes) <= node.level:
            self.nodes.append([])
            self._unmerged.append(([], []))
        self.nodes[node.level].append(node)
        nodes, below = self._unmerged[node.level]
        below = [*below, sums]
        if sum(each.n_bytes for each in below) > MOST_BYTES:
            below = [summed(below)]
        self._unmerged[node.level] = [*nodes, node], below


def sums_chunk(node: Node, sums: NodeSums, origin_ns: int, singles: Rows = _NO_ROWS) -> Chunk:
    """Return a node as a chunk.

    Args:
        node: the node.
        sums: its sums.
        origin_ns: the time of edge 0 of its bins.
        singles: its intervals that are not inside its window.

    Raises:
        ChunkSizeError: it has more sums than a reader takes.
    """
    if max(len(table[0]) for table in (sums.cells, sums.bins, sums.waits)) > MAX_SUMS:
        raise ChunkSizeError("a node has too many sums")
    columns = {
        f"{name}.{each}": getattr(getattr(sums, name), each)
        for name in SUM_TABLES
        for each in getattr(sums, name)._fields
    }
    facts = {
        "level": node.level,
        "start_ns": node.start_ns,
        "end_ns": node.end_ns,
        "first_ns": node.first_ns,
        "bins_level": node.bins_level,
        "origin_ns": origin_ns,
        "bytes": node.offset - node.rows_at if node.level == 0 else 0,
        "lock_bytes": node.offset - node.locks_at if node.locks_at else 0,
    }
    return Chunk(SUMS, facts, columns | columns_of("single", singles))
