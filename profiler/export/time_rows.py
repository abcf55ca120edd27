"""Rows for formats that give each stack all its times: by thread, and by what the thread did."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ..model import Activity, Clock, LockState, ThreadState
from ..recording.profile.leaves import leaf_of
from .cell_leaves import activities, are_apart, is_asleep
from .request import ExportRequest

Int64s = npt.NDArray[np.int64]

STATES = {
    ThreadState.RUNNING: "running",
    ThreadState.PARKED: "asleep",
    ThreadState.BLOCKED: "asleep",
    ThreadState.QUEUED: "waiting for a CPU",
}


class TimeRows(NamedTuple):
    """Times in columns, each key once; nanoseconds. The key is all but the times.

    A row of a running thread has its CPU time, and the time in which it waited for a CPU meanwhile.
    """

    thread_id: Int64s
    node: Int64s  # of the trie, where the stack ends
    sysno: Int64s  # the system call in which it waits (``LeafWeights``)
    state: Int64s  # ThreadState
    activity: Int64s  # Activity: why it sleeps, or waits for a CPU
    lock: Int64s  # LockState
    cpu_ns: Int64s
    wall_ns: Int64s
    off_cpu_ns: Int64s
    samples: Int64s | None = None  # stacks taken; None of a range of time


def wait_of(state: int, activity: int) -> str:
    """Return why a thread sleeps, in one word: "lock", "io" …; "" for one that does not."""
    return Activity(activity).name.lower() if is_asleep(state) else ""


def gil_of(lock: int) -> str:
    """Return what a thread does with its interpreter's lock: "held" …; "" for nothing."""
    return "" if lock == LockState.NONE else LockState(lock).name.lower()


def lock_when_running(lock: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """Return what sleeping threads did with the lock while they ran, if that is known."""
    return np.where(lock == LockState.HELD, lock, np.uint8(LockState.NONE))


def time_rows(request: ExportRequest) -> TimeRows:
    """Return the times of what is counted by a request, whatever its clock."""
    times = request.profile.cell_times(*request.between_ns)
    wanted = np.ones(len(times.node), bool)
    if request.selection.thread_ids is not None:
        wanted &= np.isin(times.thread_id, np.fromiter(request.selection.thread_ids, np.uint32))
    if request.selection.frames.only_gil:
        wanted &= times.lock == LockState.HELD
    node, sysno = leaf_of(Clock.WALL, times.node, times.state, times.sysno)
    activity = activities(request, times.state, times.sysno, times.stack, times.waits)
    rows = np.flatnonzero(wanted)
    is_apart = wanted & (times.cpu_ns > 0) & are_apart(node, sysno, times.node)
    apart = np.flatnonzero(is_apart)
    none = np.zeros(len(apart), np.int64)

    def column(own: npt.NDArray[Any], other: npt.NDArray[Any]) -> Int64s:
        return np.concatenate((own[rows], other)).astype(np.int64)

    keys = [
        column(times.thread_id, times.thread_id[apart]),
        column(node, times.node[apart]),
        column(sysno, none - 1),
        column(times.state, none + ThreadState.RUNNING),
        column(activity, none + Activity.CPU),
        column(times.lock, lock_when_running(times.lock[apart])),
    ]
    values = [
        column(np.where(is_apart, 0, times.cpu_ns), times.cpu_ns[apart]),
        column(times.wall_ns, none),
        column(times.off_cpu_ns, none),
    ]
    if times.samples is not None:
        values.append(column(times.samples, none))
    return _grouped(keys, values)


def _grouped(keys: Sequence[Int64s], values: Sequence[Int64s]) -> TimeRows:
    """Return rows with each key once."""
    order = np.lexsort(keys[::-1])
    keys = [each[order] for each in keys]
    is_first = np.ones(len(order), bool)
    is_first[1:] = np.any([each[1:] != each[:-1] for each in keys], axis=0)
    at = np.flatnonzero(is_first)
    sums = [np.add.reduceat(each[order], at) if len(at) else each for each in values]
    return TimeRows(*(each[at] for each in keys), *sums)
