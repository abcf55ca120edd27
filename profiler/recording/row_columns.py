"""Turn intervals into columns of a chunk, and columns into intervals. Pure."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from .chunks import MAX_COUNT, Chunk, DamageError
from .profile.interval_chunk import ROW_DTYPE, Rows

NAMES = ROW_DTYPE.names or ()


def columns_of(of: str, rows: Rows) -> dict[str, npt.NDArray[Any]]:
    """Return intervals as columns.

    Args:
        of: what their names begin with.
        rows: the intervals.
    """
    return {f"{of}.{name}": rows[name] for name in NAMES}


def ended_columns(rows: Rows) -> dict[str, npt.NDArray[Any]]:
    """Return intervals that have ended as columns.

    Starts take half of the bytes as distances to the one before.
    """
    distances = rows["t0_ns"].copy()
    distances[1:] -= rows["t0_ns"][:-1]
    return columns_of("rows", rows) | {"rows.t0_ns": distances}


def rows_of(chunk: Chunk, of: str, most: int = MAX_COUNT) -> Rows:
    """Return the intervals of a chunk; their starts are as they are stored.

    Args:
        chunk: the chunk.
        of: what the names of their columns begin with.
        most: how many there may be.

    Raises:
        DamageError: they make no sense.
    """
    lengths = {len(chunk.columns.get(f"{of}.{name}", ())) for name in NAMES}
    if len(lengths) != 1:
        raise DamageError("its intervals have columns of different lengths")
    if max(lengths) > most:
        raise DamageError("it has too many intervals in one place")
    rows: Rows = np.empty(lengths.pop(), ROW_DTYPE)
    for name in NAMES:
        rows[name] = chunk.column(f"{of}.{name}", ROW_DTYPE[name])
    return rows


def ended_rows(chunk: Chunk) -> Rows:
    """Return the intervals of a chunk that have ended. Raises DamageError."""
    rows = rows_of(chunk, "rows")
    rows["t0_ns"] = np.cumsum(rows["t0_ns"])
    return rows
