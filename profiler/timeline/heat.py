"""Draw up heat maps: when in each second CPUs are busy, and how long threads wait, by cause."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ..model import Activity
from ..recording.profile.time_bins import SECOND_LEVEL, level_for, step_ns
from ..recording.profile.wait_rows import WAIT_ROWS
from .heat_sums import (
    CPU_LEVEL,
    ROWS_A_SECOND,
    choose,
    column_sums,
    cpu_sums,
    wait_counts,
)
from .lanes import FULL
from .time_sums import TimeSums

MAX_COLUMNS = 720
# Of ``CPU_LEVEL``, in memory at once: those of nine hours. A column of more has minutes, in which
# the parts of a second are mostly alike: they are shown as their average.
MAX_CPU_BINS = 1 << 21


@dataclass(frozen=True)
class HeatQuery:
    """Which heat map is wanted. Times are nanoseconds since the start of the recording.

    Attributes:
        kind: "cpu" or "waits".
        start_ns: of the time shown.
        end_ns: its end; None for now.
        n_columns: at most so many.
        thread_ids: only these threads; None for all.
    """

    kind: str = "cpu"
    start_ns: int = 0
    end_ns: int | None = None
    n_columns: int = 400
    thread_ids: frozenset[int] | None = None


@dataclass(frozen=True)
class Heat:
    """A heat map: planes of cells, column by column, from the lowest row on.

    Attributes:
        start_ns: of the first column, since the start of the recording.
        step_ns: the time of a column.
        n_columns: how many columns.
        n_rows: how many rows.
        planes: for each activity that occurs, a number 0 … ``FULL`` for each cell.
        most: what ``FULL`` means: CPUs busy, whose square root the levels count; or waits, on a
            logarithmic scale.
    """

    start_ns: int
    step_ns: int
    n_columns: int
    n_rows: int
    planes: dict[Activity, bytes]
    most: float


def heat(time_sums: TimeSums, query: HeatQuery) -> Heat:
    """Return the heat map that a query asks for."""
    view = time_sums.look()
    choice = choose(view, query.thread_ids)
    shift_ns = view.now.start_ns - view.origin_ns
    duration_ns = max(0, view.now.now_ns - view.now.start_ns)
    end_ns = duration_ns if query.end_ns is None else min(query.end_ns, duration_ns)
    start_ns = max(0, min(query.start_ns, end_ns))
    level = level_for(end_ns - start_ns, min(query.n_columns, MAX_COLUMNS))
    if query.kind == "cpu":
        level = max(SECOND_LEVEL, level)
    step = step_ns(level)
    first = (start_ns + shift_ns) // step
    count = max(1, -(-(end_ns + shift_ns) // step) - first)
    where = first * step - shift_ns, step, count
    if query.kind == "cpu":
        scale = 1 << (level - CPU_LEVEL)
        if count * scale > MAX_CPU_BINS:
            columns = column_sums(view, choice, level, first, count) / scale
            seconds = np.repeat(columns[:, None], ROWS_A_SECOND, axis=1)
        else:
            sums = cpu_sums(view, choice, first * scale, count * scale)
            # Several seconds in one column: their average.
            seconds = sums.reshape(count, -1, ROWS_A_SECOND).mean(axis=1)
        most = max(1.0, float(seconds.max()) / step_ns(CPU_LEVEL))
        # Square roots: with a burst on many CPUs somewhere, few busy CPUs still have levels.
        shares = np.sqrt(seconds / (most * step_ns(CPU_LEVEL)))
        cells = np.rint(FULL * shares).astype(np.uint8)
        return Heat(*where, ROWS_A_SECOND, {Activity.CPU: cells.tobytes()}, most)
    waits = wait_counts(view, choice, level, first, count)
    most_waits = int(waits.max())
    planes = {
        Activity(at): _logarithmic(plane, most_waits).T.tobytes()
        for at, plane in enumerate(waits)
        if plane.any()
    }
    return Heat(*where, WAIT_ROWS, planes, most_waits)


def _logarithmic(counts: npt.NDArray[np.int64], most: int) -> npt.NDArray[np.uint8]:
    parts = FULL * np.log1p(counts) / np.log1p(most)
    return np.where(counts > 0, np.maximum(1, np.rint(parts)), 0).astype(np.uint8)
