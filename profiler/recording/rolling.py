"""Keep only the last part of a recording on disk: a flight recorder.

What the writer appends goes into pieces, each a tenth of the time that is kept. Of a piece that is
older than that, stacks, threads and names are kept, which later intervals refer to, and its
intervals are dropped.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO

import numpy as np

from .chunks import Chunk, ChunkReader, encode, header
from .profile.interval_chunk import Rows
from .row_columns import columns_of, ended_columns, ended_rows, rows_of

PIECES = 10
_KEPT_ALWAYS = ("META", "NAME", "GAIN")


@dataclass
class _Piece:
    path: Path
    begin_s: float


class RollingFile:
    """What a ``RecordingWriter`` writes to; see the module docstring. One thread uses it at a time.

    Args:
        folder: for the pieces; an empty one of its own.
        keep_s: how much is kept, seconds.
        clock: returns the time, seconds.
    """

    def __init__(
        self, folder: str, keep_s: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._folder = Path(folder)
        self._keep_s = keep_s
        self._clock = clock
        self._count = 0
        self._old = self._folder / "old"
        self._old.write_bytes(header())
        self._pieces: list[_Piece] = []
        self._file: BinaryIO | None = None
        self._begin()

    @property
    def closed(self) -> bool:
        """True after ``close``."""
        return self._file is None

    def write(self, data: bytes) -> int:
        """Append the header, or a whole chunk."""
        assert self._file is not None
        if data == header():  # each piece has one
            return len(data)
        now_s = self._clock()
        if now_s - self._pieces[-1].begin_s >= self._keep_s / PIECES:
            self._begin()
        while len(self._pieces) > 1 and self._pieces[1].begin_s <= now_s - self._keep_s:
            self._reduce(self._pieces.pop(0))
        return self._file.write(data)

    def flush(self) -> None:
        """Write what is buffered."""
        if self._file is not None:
            self._file.flush()

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def write_out(self, copy: BinaryIO, start_ns: int, rest: Iterable[Chunk]) -> None:
        """Write what is kept as a file of its own.

        Args:
            copy: open for writing.
            start_ns: what was before is left out; CLOCK_MONOTONIC of the target.
            rest: chunks at the end.
        """
        self.flush()
        copy.write(header())
        for path in (self._old, *(each.path for each in self._pieces)):
            for chunk in _chunks(path):
                if chunk.kind in _KEPT_ALWAYS:
                    copy.write(encode(clipped(chunk, start_ns)))
        copy.write(encode(Chunk("META", {"is_part": True})))
        for chunk in rest:
            copy.write(encode(chunk))

    def _begin(self) -> None:
        """Begin a piece."""
        if self._file is not None:
            self._file.close()
        self._count += 1
        path = self._folder / str(self._count)
        self._file = path.open("wb")
        self._file.write(header())
        self._pieces.append(_Piece(path, self._clock()))

    def _reduce(self, piece: _Piece) -> None:
        """Keep of a piece what later ones refer to."""
        with self._old.open("ab") as old:
            for chunk in _chunks(piece.path):
                if chunk.kind in _KEPT_ALWAYS:
                    old.write(encode(without_rows(chunk)))
        os.unlink(piece.path)


def _chunks(path: Path) -> Iterator[Chunk]:
    with path.open("rb") as file:
        yield from ChunkReader(file, str(path))


def without_rows(chunk: Chunk) -> Chunk:
    """Return a chunk without intervals."""
    columns = {
        name: column
        for name, column in chunk.columns.items()
        if not name.startswith(("rows.", "open."))
    }
    return replace(chunk, columns=columns)


def clipped(chunk: Chunk, start_ns: int) -> Chunk:
    """Return a chunk without the time before ``start_ns``."""
    if chunk.kind != "GAIN":
        return chunk
    ended = ended_rows(chunk)
    ended = _later(ended[ended["t0_ns"] + ended["wall_ns"] > start_ns], start_ns)
    columns = {
        **without_rows(chunk).columns,
        **ended_columns(ended),
        **columns_of("open", _later(rows_of(chunk, "open"), start_ns)),
    }
    return replace(chunk, facts={**chunk.facts, "start_ns": start_ns}, columns=columns)


def _later(rows: Rows, start_ns: int) -> Rows:
    """Return the parts of intervals after a time."""
    wall_ns = rows["wall_ns"]
    lost_ns = np.minimum(np.maximum(start_ns - rows["t0_ns"], 0), wall_ns)
    part = (wall_ns - lost_ns) / np.maximum(wall_ns, 1)
    later: Rows = rows.copy()
    later["t0_ns"] = np.maximum(rows["t0_ns"], start_ns)
    later["wall_ns"] = wall_ns - lost_ns
    later["cpu_ns"] = (rows["cpu_ns"] * np.where(lost_ns > 0, part, 1.0)).astype(np.int64)
    return later
