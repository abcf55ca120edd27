"""Divide a growing profile's intervals into parts that stay as they are, each with what is made
from it: chunks, and pieces of the tail that becomes the next chunk.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from ..recording.profile.interval_chunk import Block, Chunk, Rows, block_of
from ..recording.profile.intervals import IntervalMoments

CHUNK_BINS = 512
PIECE_ROWS = 1 << 13
PIECE_BINS = 64


class Part:
    """Some intervals that stay as they are. Any thread may call.

    Args:
        start_ns: start of the earliest.
        end_ns: end of the latest.
        read: returns all of them.
        most_bins: what they add to bins is kept for about so many bins, and for fewer.
        last_cell: the greatest number of their cells.
    """

    def __init__(
        self, start_ns: int, end_ns: int, read: Callable[[], Block], most_bins: int, last_cell: int
    ) -> None:
        self.start_ns = start_ns
        self.end_ns = end_ns
        self.read = read
        self.most_bins = most_bins
        self.last_cell = last_cell
        self._lock = threading.Lock()
        self._kept: dict[tuple[Any, ...], Any] = {}

    def keep(self, key: tuple[Any, ...], make: Callable[[], Any], *, most: int) -> Any:
        """Return what is kept under a key; make it if it is not.

        Args:
            key: begins with its kind.
            make: makes it.
            most: of each kind, so many are kept, those used last.
        """
        with self._lock:
            found = self._kept.pop(key) if key in self._kept else make()
            self._kept[key] = found
            same_kind = [each for each in self._kept if each[0] == key[0]]
            for old in same_kind[:-most]:
                del self._kept[old]
        return found


class Parts:
    """The parts of a profile. Not thread-safe."""

    def __init__(self) -> None:
        self._chunks: dict[Chunk, Part] = {}
        self._pieces: dict[tuple[int, int], Part] = {}

    def of(self, now: IntervalMoments) -> tuple[list[Part], Rows]:
        """Return all parts of a profile, its chunks first, and the rows of its tail that are in
        none.
        """
        chunks, pieces = self._chunks, self._pieces
        self._chunks = {chunk: chunks.get(chunk) or _of_chunk(chunk) for chunk in now.chunks}
        self._pieces = {}
        end = len(now.tail) // PIECE_ROWS * PIECE_ROWS
        for start in range(0, end, PIECE_ROWS):
            at = now.n_before, start
            rows = now.tail[start : start + PIECE_ROWS]
            self._pieces[at] = pieces.get(at) or _of_rows(rows)
        return [*self._chunks.values(), *self._pieces.values()], now.tail[end:]

    def forget(self, first_cell: int) -> None:
        """Forget what is made from intervals of cells from a number on: these are others now."""
        self._chunks = {
            chunk: part for chunk, part in self._chunks.items() if part.last_cell < first_cell
        }
        self._pieces = {
            at: part for at, part in self._pieces.items() if part.last_cell < first_cell
        }


def _of_chunk(chunk: Chunk) -> Part:
    return Part(chunk.start_ns, chunk.end_ns, chunk.read, CHUNK_BINS, chunk.last_cell)


def _of_rows(rows: Rows) -> Part:
    block = Block(*(column.copy() for column in block_of(rows)))
    end_ns = int((block.t0_ns + block.wall_ns).max())
    start_ns, last_cell = int(block.t0_ns.min()), int(block.cell.max())
    return Part(start_ns, end_ns, lambda: block, PIECE_BINS, last_cell)
