"""Tell the locks of several processes apart by their numbers. Pure.

The number of a lock is a hash of its address: other processes may have the same ones.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

_LOCKS = (1 << 16) - 1  # numbers of locks: 1 to this one
_STEP = 24593  # no factor of it: no two processes share a number by their addresses alone


def lock_numbers(numbers: npt.NDArray[np.uint16], process: int) -> npt.NDArray[np.uint16]:
    """Return the numbers of a process's locks among those of all processes; 0, for none, stays."""
    moved = numbers.astype(np.int64) - 1 + process * _STEP
    return np.where(numbers > 0, moved % _LOCKS + 1, 0).astype(np.uint16)
