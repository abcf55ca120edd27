"""Leaves: where stacks end, for weights by stack and system call. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ...linux.syscalls import QUEUED
from ...model import Clock, ThreadState
from .stacks import ROOT, UNATTRIBUTED


@dataclass(frozen=True)
class LeafWeights:
    """Weights by leaf, in columns; the same leaf may have several rows.

    A leaf is a node of the trie and, for a thread that waits in a system call, the number of that
    call.
    """

    thread_id: npt.NDArray[np.uint32]
    node: npt.NDArray[np.int32]
    sysno: npt.NDArray[np.int16]  # -1 for none; for the CPU clock always -1
    weight: npt.NDArray[np.int64]  # nanoseconds, or samples

    def where(self, wanted: npt.NDArray[np.bool_]) -> LeafWeights:
        """Return some of the rows."""
        return self if wanted.all() else self.take(wanted)

    def take(self, rows: slice | npt.NDArray[Any]) -> LeafWeights:
        """Return some of the rows, by a slice, by their numbers or by a mask."""
        return LeafWeights(
            self.thread_id[rows], self.node[rows], self.sysno[rows], self.weight[rows]
        )

    @property
    def total(self) -> int:
        """The sum of all weights."""
        return int(self.weight.sum())


def leaf_of(
    clock: Clock,
    node: npt.NDArray[np.int32],
    state: npt.NDArray[np.uint8],
    sysno: npt.NDArray[np.int16],
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int16]]:
    """Return the columns node and system call of leaves.

    A thread that waits for a CPU, and has no stack yet, waits at the root.
    """
    if clock is Clock.CPU:
        return node, np.full(len(sysno), -1, np.int16)
    waits = np.where(state == ThreadState.PARKED, sysno, np.int16(-1))
    is_queued = state == ThreadState.QUEUED
    node = np.where(is_queued & (node == UNATTRIBUTED), np.int32(ROOT), node)
    return node, np.where(is_queued, np.int16(QUEUED), waits)
