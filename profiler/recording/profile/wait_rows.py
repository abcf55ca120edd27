"""Sort waits by how long they lasted: two rows for each doubling from a microsecond on. Pure."""

from __future__ import annotations

import numpy as np

from .time_bins import Int64s

SHORTEST_NS = 1024
WAIT_ROWS = 60


def wait_row(wall_ns: Int64s) -> Int64s:
    """Return the row of waits of at least ``SHORTEST_NS``."""
    doublings = np.log2(wall_ns / SHORTEST_NS)
    return np.minimum(np.floor(2 * doublings + 1e-9), WAIT_ROWS - 1).astype(np.int64)
