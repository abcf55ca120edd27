"""Tell which waits in a futex are for another thread's work, by the functions at their leaf ends.

Each stack is looked at once. A stack that needs a name which is not known yet is looked at again,
at growing intervals, for two minutes. One thread at a time calls.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ..recording.names.table import SymbolTable
from ..recording.profile.wait_stacks import WaitStacks
from ..tree.wait_names import SILENT_FRAMES, WaitName, wait_name

_FIRST_GAP_S = 0.25
_LAST_GAP_S = 60.0
_MAX_UNSURE = 10_000  # more stacks than these are not looked at again


@dataclass
class _Unsure:
    """A stack to look at again."""

    frames: tuple[int, ...]
    gap_s: float
    due_s: float


class WaitCauses:
    """Implements ``profile.wait_stacks.WaitReader``; see the module docstring.

    Args:
        table: the names.
        clock: returns seconds.
    """

    def __init__(self, table: SymbolTable, clock: Callable[[], float] = time.monotonic) -> None:
        self._table = table
        self._clock = clock
        self._words: dict[int, tuple[WaitName, ...]] = {}  # address → its functions, leaf first
        self._is_work: dict[int, bool] = {}  # stack → whether its waits are for work
        self._unsure: dict[int, _Unsure] = {}

    def are_for_work(self, waits: WaitStacks) -> npt.NDArray[np.bool_]:
        """See ``WaitReader.are_for_work``."""
        found = np.zeros(len(waits.stack), bool)
        for at, stack in enumerate(waits.stack.tolist()):
            known = self._is_work.get(stack)
            if known is None:
                known = self._look(stack, tuple(waits.frames[at].tolist()), _FIRST_GAP_S)
            found[at] = known
        return found

    def changed(self) -> Mapping[int, bool]:
        """See ``WaitReader.changed``."""
        now = self._clock()
        changed = {}
        for stack, unsure in list(self._unsure.items()):
            if unsure.due_s <= now:
                before = self._is_work[stack]
                if self._look(stack, unsure.frames, 2 * unsure.gap_s) != before:
                    changed[stack] = not before
        return changed

    def _look(self, stack: int, frames: tuple[int, ...], gap_s: float) -> bool:
        said, is_sure = self._read(frames)
        self._unsure.pop(stack, None)
        if not is_sure and gap_s <= _LAST_GAP_S and len(self._unsure) < _MAX_UNSURE:
            self._unsure[stack] = _Unsure(frames, gap_s, self._clock() + gap_s)
        self._is_work[stack] = said is WaitName.WORK
        return self._is_work[stack]

    def _read(self, frames: Sequence[int]) -> tuple[WaitName, bool]:
        """Return the last word before a silent function, and whether all have names."""
        said, is_sure = WaitName.SILENT, True
        for depth, address in enumerate(frames):
            if address < 0 or (said is WaitName.SILENT and depth >= SILENT_FRAMES):
                break
            words = self._words.get(address)
            if words is None:
                is_named = self._table.named(address)
                named = self._table.frames(address)
                words = tuple(wait_name(frame.function) for frame in reversed(named))
                if is_named:
                    self._words[address] = words
                is_sure = is_sure and is_named
            for word in words:
                if word is WaitName.LOCK_AGAIN:
                    return WaitName.LOCK, is_sure
                if word in (WaitName.LOCK, WaitName.WORK):
                    said = word
                elif word is WaitName.SILENT and said is not WaitName.SILENT:
                    return said, is_sure
        return said, is_sure
