"""Place the rows of a thread in time, so that none overlap. Pure."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Int64s = npt.NDArray[np.int64]


def one_after_another(end_ns: Int64s, span_ns: Int64s) -> Int64s:
    """Return when each row begins if rows that overlap the next ones are moved back.

    How long a thread waited for a CPU is known, but not exactly when: only that it was over by the
    end of the row.

    Args:
        end_ns: where each row ends, in order of time.
        span_ns: how long each takes.
    """
    total = np.cumsum(span_ns)
    latest_end = total + np.minimum.accumulate((end_ns - total)[::-1])[::-1]
    return np.asarray(latest_end - span_ns)
