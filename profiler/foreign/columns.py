"""Read lists of numbers in JSON as arrays, checked. Pure.

All functions raise ValueError or TypeError if the numbers make no sense.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Int64s = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

NONE = -1
_SPARSE = 4  # sorting takes less time where numbers are sparser
_MAX = 2.0**61  # sums and differences of three fit into 64 bits; in nanoseconds, the year 2043


def floats(values: Any) -> Floats:
    """Return a list of numbers; NaN where one is null."""
    if not isinstance(values, list):
        raise TypeError("a column is no list")
    found = np.asarray(values, np.float64)
    if found.ndim != 1:
        raise ValueError("a column has lists in it")
    return found


def indices(values: Any, end: int) -> Int64s:
    """Return a list of places in a table of so many rows; -1 where one is null or -1."""
    found = floats(values)
    found = np.where(np.isnan(found), float(NONE), found)
    if len(found) and not (found.min() >= NONE and found.max() < end):
        raise ValueError("it refers to a row that is not there")
    return found.astype(np.int64)


def whole(values: Floats, factor: float = 1.0) -> Int64s:
    """Return numbers times a factor, rounded."""
    found = np.rint(values * factor)
    # NaN is in no range.
    if len(found) and not (found.min() > -_MAX and found.max() < _MAX):
        raise ValueError("a number is too large, or none")
    return found.astype(np.int64)


def distinct(numbers: Int64s, end: int) -> tuple[Int64s, Int64s]:
    """Return the numbers that there are, in order, and the place of each among them.

    Args:
        numbers: not below 0.
        end: above all of them.
    """
    if end > _SPARSE * (len(numbers) + 1):
        found, which = np.unique(numbers, return_inverse=True)
        return found, which.reshape(-1)
    is_there = np.zeros(end, bool)
    is_there[numbers] = True
    return np.flatnonzero(is_there), (np.cumsum(is_there) - 1)[numbers]


def at(column: Sequence[Any], row: Any) -> Any:
    """Return what is in a row of a column. Raises LookupError if there is none."""
    if row < 0:  # which Python counts from the end
        raise LookupError("it refers to a row that is not there")
    return column[row]


def line_of(number: Any) -> int:
    """Return the number of a line, which may be text; 0 if it is none."""
    if isinstance(number, str):
        return tid_of(number)
    return number if isinstance(number, int) and 0 < number < 1 << 31 else 0


def tid_of(number: Any) -> int:
    """Return the kernel's number of a thread; 0 for what is too large for one, such as an address.

    Args:
        number: as it is in the file, maybe as text.
    """
    text = str(number)
    found = int(text) if text.isascii() and text.isdigit() and len(text) < 11 else 0
    return found if found < 1 << 31 else 0
