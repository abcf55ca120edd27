"""The leaf ends of the stacks in which threads sleep in a futex: what says what they wait for.

A futex serves locks, and waits for what another thread brings: work, a result, its end. Only names
tell them apart, which are not known here: a ``WaitReader`` reads them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from .activities import are_futex_waits
from .stacks import Stacks

Int32s = npt.NDArray[np.int32]

LEAF_FRAMES = 32  # those of a runtime between a wait and the function that asked for it


class WaitStacks(NamedTuple):
    """Stacks, each once."""

    stack: Int32s
    frames: Int32s  # their address ids: a row for each, leaf first; ``NO_ADDRESS`` behind the root


class WaitReader(Protocol):
    """Tells what the stacks of waits say. One thread at a time calls."""

    def are_for_work(self, waits: WaitStacks) -> npt.NDArray[np.bool_]:
        """Return which of some stacks wait for another thread's work, as far as names are known."""
        ...

    def changed(self) -> Mapping[int, bool]:
        """Return what is now true of stacks of which names have told otherwise since."""
        ...


def wait_stacks(
    stacks: Stacks, stack: Int32s, state: npt.NDArray[np.uint8], sysno: npt.NDArray[np.int16]
) -> WaitStacks:
    """Return the stacks of those cells that sleep in a futex.

    Args:
        stacks: all of them.
        stack: of each cell.
        state: ``ThreadState``.
        sysno: the system call, or what stands in its place.
    """
    found = np.unique(stack[are_futex_waits(state, sysno)])
    return WaitStacks(found, stacks.leaf_frames(found, LEAF_FRAMES))
