"""What each cell of a recording is, for formats that list its intervals one by one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ..locks.wait_causes import WaitCauses
from ..model import Activity, Clock, ThreadState
from ..recording.profile.activities import are_futex_waits, off_cpu_activities
from ..recording.profile.interval_chunk import AnyChunk
from ..recording.profile.wait_stacks import WaitStacks
from .request import ExportRequest

Bools = npt.NDArray[np.bool_]
Bytes = npt.NDArray[np.uint8]


class CellLeaves(NamedTuple):
    """A snapshot of all intervals, and columns by cell: a thread, a stack, and what it does."""

    chunks: Sequence[AnyChunk]
    between_ns: tuple[int, int] | None  # only the parts of the intervals in this range count
    node: npt.NDArray[np.int32]  # of the trie: where the stack ends, by the wall clock
    sysno: npt.NDArray[np.int16]  # the system call in which it waits (``LeafWeights``)
    cpu_node: npt.NDArray[np.int32]  # the same by the CPU clock, which has no system calls
    state: Bytes  # ThreadState
    activity: Bytes  # Activity, off the CPU
    lock: Bytes  # LockState
    counts: Bools

    @property
    def is_apart(self) -> Bools:
        """Whether CPU time of each cell is of another leaf (``are_apart``)."""
        return are_apart(self.node, self.sysno, self.cpu_node)


def cell_leaves(request: ExportRequest) -> CellLeaves:
    """Return what is counted by a request, whatever its clock."""
    profile = request.profile
    holding = request.selection.frames.only_gil
    wall, cpu = (
        profile.timelines(clock, *request.between_ns, holding=holding)
        for clock in (Clock.WALL, Clock.CPU)
    )
    cells = profile.moments().new_cells
    count = len(wall.node)  # a live recording has more by now
    state, stack = cells.state[:count], cells.stack[:count]
    activity = activities(request, state, cells.sysno[:count], stack, cells.waits)
    return CellLeaves(
        wall.chunks,
        wall.between_ns,
        wall.node,
        wall.sysno,
        cpu.node[:count],
        state,
        activity,
        cells.lock[:count],
        wall.counts,
    )


def are_apart(
    node: npt.NDArray[np.int32], sysno: npt.NDArray[np.int16], cpu_node: npt.NDArray[np.int32]
) -> Bools:
    """Return which cells have their CPU time at another leaf than the rest of their time.

    A thread that sleeps in a system call has used it elsewhere: before the call, or after.

    Args:
        node: where the stack of each cell ends, by the wall clock.
        sysno: the system call in which it waits.
        cpu_node: where the stack ends by the CPU clock.
    """
    found: Bools = (sysno >= 0) | (node != cpu_node)
    return found


def activities(
    request: ExportRequest,
    state: Bytes,
    sysno: npt.NDArray[np.int16],
    stack: npt.NDArray[np.int32],
    waits: WaitStacks,
) -> Bytes:
    """Return what threads do off the CPU.

    Args:
        request: has the names, which tell waits for work from waits for locks.
        state: of each cell, ``ThreadState``.
        sysno: of each cell.
        stack: of each cell.
        waits: the stacks of those that sleep in a futex.
    """
    found = off_cpu_activities(state, sysno)
    for_work = waits.stack[WaitCauses(request.names).are_for_work(waits)]
    found[are_futex_waits(state, sysno) & np.isin(stack, for_work)] = Activity.WORK
    return found


def is_asleep(state: int) -> bool:
    """Tell whether a thread in this state sleeps."""
    return state in (ThreadState.PARKED, ThreadState.BLOCKED)
