"""What the numbers of another table of names are in one that has names of its own, too.

Views give functions to a table, and addresses without names a stand-in, while more of the other
table comes.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from ...model import Function
from .frame_pool import NameGains, NameMark

Int32s = npt.NDArray[np.int32]


class Given:
    """See the module. ``SymbolTable.extend`` adds to it.

    Attributes:
        functions: the number of each function of the other table.
        addresses: of each address; None while both have the same.
    """

    def __init__(self) -> None:
        self.functions, self._frames, self._files = array("i"), array("i"), array("i", [0])
        self.addresses: Int32s | None = None

    @property
    def mark(self) -> NameMark:
        """How much of the other table is known."""
        return NameMark(len(self.functions), len(self._frames), len(self._files))

    def take(
        self,
        gains: NameGains,
        function_id: Callable[[Function], int],
        file_id: Callable[[str, str], int],
        place: int,
    ) -> NameGains:
        """Return names with the numbers that they have here.

        Args:
            gains: they, checked.
            function_id: returns the number of a function, also of a new one.
            file_id: of a source file and a tier.
            place: of the first of its frames.
        """
        self.functions.extend(map(function_id, gains.functions))
        self._files.extend(file_id(*each) for each in gains.files)
        self._frames.extend(range(place, place + len(gains.function)))
        caller, callee = self._address(gains.lost >> 32), self._address(gains.lost & 0xFFFFFFFF)
        return replace(
            gains,
            function=_these(self.functions, gains.function),
            file=_these(self._files, gains.file),
            address=self._address(gains.address).astype(np.int32),
            first=self._place(gains.first, gains.count),
            lost=caller << 32 | callee,
            lost_first=self._place(gains.lost_first, gains.lost_count),
            kernel=self._address(gains.kernel).astype(np.int32),
        )

    def _address(self, numbers: npt.NDArray[np.int64] | Int32s) -> npt.NDArray[np.int64]:
        found = numbers if self.addresses is None else self.addresses[numbers]
        return found.astype(np.int64)

    def _place(self, first: Int32s, count: Int32s) -> Int32s:
        is_there = count > 0
        found = np.zeros(len(first), np.int32)
        found[is_there] = _these(self._frames, first[is_there])
        return found


def _these(numbers: array[int], wanted: Int32s) -> Int32s:
    if not len(wanted):
        return wanted
    found: Int32s = np.frombuffer(numbers, np.int32)[wanted]
    return found
