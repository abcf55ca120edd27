"""Copy the intervals of several recordings side by side, in order of time."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence

import numpy as np

from ..chunks import ChunkReader
from ..profile.gains import Gains
from ..profile.interval_chunk import ROW_DTYPE, Rows, joined_rows
from ..profile.lock_numbers import lock_numbers
from ..row_columns import ended_rows
from ..row_columns import rows_of as table_of
from .parts import Part, unreadable
from .tables import MergedTables, renumbered, rows_gains

ROWS_IN_CHUNK = 1 << 17


def merged_rows(parts: Sequence[Part], tables: MergedTables) -> Iterator[Gains]:
    """Return the intervals of all parts.

    Args:
        parts: placed, with their tables added.
        tables: of the whole.

    Raises:
        InputError: a file cannot be read any more.
    """
    start_ns = min(part.between_ns[0] for part in parts)
    now_ns = n_rows = 0
    waiting: list[Rows] = []
    streams = (rows_of(part, tables) for part in parts)
    for until_ns, rows in heapq.merge(*streams, key=lambda each: each[0]):
        waiting.append(rows)
        n_rows, now_ns = n_rows + len(rows), max(now_ns, until_ns)
        if n_rows >= ROWS_IN_CHUNK:
            yield rows_gains(joined_rows(waiting), start_ns, now_ns)
            waiting, n_rows = [], 0
    yield rows_gains(joined_rows(waiting), start_ns, now_ns)


def rows_of(part: Part, tables: MergedTables) -> Iterator[tuple[int, Rows]]:
    """Return the intervals of a part as they are in the whole, each with the time up to then.

    Those that were open at its end have ended there.
    """
    try:
        with open(part.path, "rb") as file:
            now_ns, still_open = 0, np.empty(0, ROW_DTYPE)
            for chunk in ChunkReader(file, part.path, lambda kind, _: kind == "GAIN"):
                if chunk.offset >= part.end:
                    break
                now_ns = max(now_ns, int(chunk.facts.get("now_ns", 0)))
                still_open = table_of(chunk, "open")
                yield now_ns + part.shift_ns, _moved(ended_rows(chunk), part, tables)
    except OSError as error:
        raise unreadable(part.path, error) from error
    length_ns = part.now_ns - still_open["t0_ns"]
    still_open["wall_ns"] = np.maximum(still_open["wall_ns"], length_ns)
    yield part.now_ns + part.shift_ns, _moved(still_open, part, tables)


def _moved(rows: Rows, part: Part, tables: MergedTables) -> Rows:
    if part.hidden_cells:
        rows = rows[~np.isin(rows["cell"], part.hidden_cells)]
    rows["t0_ns"] += part.shift_ns
    rows["cell"] += part.first_cell
    rows["holder_id"] = renumbered(rows["holder_id"], lambda number: tables.thread_id(part, number))
    for name in ("awaited_lock", "held_lock"):
        rows[name] = lock_numbers(rows[name], part.process)
    return rows
