"""Define the frames of many addresses in arrays, and what a table of names has gained. Pure."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ...model import Function

Int32s = npt.NDArray[np.int32]
_MAX_LINE = 1 << 31
_MAX_COUNT = 1 << 10  # frames of an address; the deepest chains of inlined functions have some 100
_MAX_CALL = 1 << 15  # system calls have numbers of 16 bits, and a sign


@dataclass(frozen=True)
class FramePool:
    """The frames of many addresses in arrays of C ints.

    The frames of address ``a`` are ``functions[first[a] : first[a] + count[a]]``, outermost first,
    and the same range of ``lines`` and ``line_files``. Every address has at least one.

    ``lost_pairs`` are the pairs of addresses with frames between them, ``caller << 32 | callee``,
    in order. ``lost_first`` and ``lost_count`` locate the frames of each pair, as ``first`` and
    ``count`` do for an address.
    """

    first: array[int]
    count: array[int]
    functions: array[int]
    lines: array[int]
    line_files: array[int]  # index into ``SymbolTable.line_files``, 0 for the function's own file
    file_numbers: array[int]  # of each such index, the first one with the same file
    lost_pairs: array[int]
    lost_first: array[int]
    lost_count: array[int]

    def lost(self, caller: int, callee: int) -> slice:
        """Return the range of the frames between two addresses in the pool; mostly empty."""
        pair = caller << 32 | callee
        index = bisect_left(self.lost_pairs, pair)
        if index == len(self.lost_pairs) or self.lost_pairs[index] != pair:
            return slice(0, 0)
        return slice(self.lost_first[index], self.lost_first[index] + self.lost_count[index])


class NameMark(NamedTuple):
    """The moment up to which a reader knows a table; only ``SymbolTable`` makes one."""

    n_functions: int = 0
    n_frames: int = 0
    n_files: int = 1
    n_lost: int = 0
    n_kernel: int = 0
    places: Int32s = np.empty((3, 0), np.int32)  # first, count and named of each address


@dataclass(frozen=True, eq=False)
class NameGains:
    """What has been added to a table, or changed, after a mark. In columns, but for the texts."""

    functions: Sequence[Function]
    files: Sequence[tuple[str, str]]  # of lines, with how the function runs
    file_number: Int32s  # of each: the first number of the same file
    function: Int32s  # of each frame …
    line: Int32s
    file: Int32s
    address: Int32s  # of each address that has other frames now …
    first: Int32s
    count: Int32s
    is_named: Int32s
    lost: npt.NDArray[np.int64]  # pairs of addresses …
    lost_first: Int32s
    lost_count: Int32s
    kernel: Int32s  # addresses in system calls …
    call: Int32s
    mark: NameMark

    @property
    def is_empty(self) -> bool:
        """True if nothing has changed."""
        columns = self.function, self.address, self.lost, self.kernel
        return not self.functions and not any(len(each) for each in columns)


def check(gains: NameGains, at: NameMark, n_addresses: int) -> None:
    """Check what a file gives.

    Args:
        gains: what is new.
        at: what there is before.
        n_addresses: the number of addresses.

    Raises:
        ValueError: a number is out of bounds.
    """
    n_functions = at.n_functions + len(gains.functions)
    n_frames, n_files = at.n_frames + len(gains.function), at.n_files + len(gains.files)
    for columns in (
        (gains.function, gains.line, gains.file),
        (gains.address, gains.first, gains.count, gains.is_named),
        (gains.lost, gains.lost_first, gains.lost_count),
        (gains.kernel, gains.call),
    ):
        if len({len(each) for each in columns}) != 1:
            raise ValueError("its names have columns of different lengths")
    if len(gains.file_number) != len(gains.files):
        raise ValueError("its names have columns of different lengths")
    caller, callee = gains.lost >> 32, gains.lost & 0xFFFFFFFF
    for values, end in (
        (gains.function, n_functions),
        (gains.file, n_files),
        (gains.file_number, n_files),
        (gains.line, _MAX_LINE),
        (gains.address, n_addresses),
        (gains.kernel, n_addresses),
        (gains.call, _MAX_CALL),
        (caller, n_addresses),
        (callee, n_addresses),
        (gains.is_named, 2),
        (gains.count, _MAX_COUNT),
        (gains.lost_count, _MAX_COUNT),
    ):
        if ((values < 0) | (values >= end)).any():
            raise ValueError("a name is of something that is not there")
    places = (gains.first, gains.count), (gains.lost_first, gains.lost_count)
    for first, count in places:
        stop = first.astype(np.int64) + count
        if ((first < 0) | (stop > n_frames)).any():
            raise ValueError("a name is of something that is not there")
