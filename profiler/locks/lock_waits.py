"""Tell who held the interpreter's lock (the GIL) while threads waited for it. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ..linux.syscalls import LOCK
from ..model import MANAGED, Clock, LockState
from ..recording.names.table import SymbolTable
from ..recording.profile.lock_intervals import LockIntervals
from ..recording.profile.stacks import TRUNCATED
from ..recording.profile.store import Profile
from ..tree.frame_filter import FrameFilter
from ..tree.own_frames import syscall_function
from ..tree.selection import EVERYTHING, Selection
from ..tree.shown_frames import StackReader

MAX_HOLDERS = 8  # of one box
MAX_HOLDERS_OF_ALL = 200  # of all waits: eight threads of a pool run the same few functions
MIN_SHARE = 0.005  # less may be rounding


@dataclass(frozen=True)
class Holder:
    """A thread that held the lock in a Python function, while others waited."""

    thread_id: int
    function_id: int  # of the table; -1 if it ran no Python function
    ns: int


@dataclass(frozen=True)
class LockWaits:
    """Waits for a lock, and who held it meanwhile.

    All holders' times together are ``total_ns`` for the GIL: while a thread waits, another one
    holds it, or was just given it. Of other locks they may be less: the rest is not known, or
    nobody held the lock.
    """

    total_ns: int  # of all waits; where two threads wait at a time, both count
    holders: Sequence[Holder]  # heaviest first


def lock_waits(
    profile: Profile,
    table: SymbolTable,
    selection: Selection = EVERYTHING,
    path: Sequence[int] | None = None,
) -> LockWaits:
    """Return who held the lock during waits for it.

    Reads all intervals of the recording: only for what a user has asked for.

    Args:
        profile: the recording so far.
        table: the names.
        selection: only waits of these threads in this time; the clock does not matter.
        path: only waits of one box of the selection's call tree: its function ids, root first.
    """
    t0_ns, t1_ns = selection.between(profile.start_ns, profile.now_ns)
    intervals = profile.lock_intervals(t0_ns, t1_ns)
    waits = intervals.awaited
    if selection.thread_ids is not None:
        waits &= np.isin(intervals.thread_id, np.fromiter(selection.thread_ids, np.uint32))
    if path is not None:
        nodes = _nodes_of(profile, table, intervals, waits, path, selection.frames)
        waits &= np.isin(intervals.node, nodes)
    total_ns, meanwhile = intervals.held_meanwhile(waits)
    some = np.flatnonzero(meanwhile)
    if not len(some):
        return LockWaits(total_ns, ())
    nodes, which = np.unique(intervals.node[some], return_inverse=True)
    function = _python_functions(profile, table, nodes)[which]
    keys, which = np.unique(
        np.stack((intervals.thread_id[some].astype(np.int64), function)),
        axis=1,
        return_inverse=True,
    )
    sums = np.zeros(keys.shape[1])
    np.add.at(sums, which.ravel(), meanwhile[some])
    # Intervals are placed to a few samples' time: part of what other threads held lies beside the
    # wait. What lies within tells the shares.
    sums *= total_ns / sums.sum()
    most, least_ns = (
        (MAX_HOLDERS_OF_ALL, 1.0) if path is None else (MAX_HOLDERS, MIN_SHARE * total_ns)
    )
    heaviest = np.argsort(-sums, kind="stable")[:most]
    holders = [
        Holder(int(keys[0, at]), int(keys[1, at]), int(sums[at]))
        for at in heaviest
        if sums[at] >= least_ns
    ]
    return LockWaits(total_ns, holders)


def _nodes_of(
    profile: Profile,
    table: SymbolTable,
    intervals: LockIntervals,
    waits: npt.NDArray[np.bool_],
    path: Sequence[int],
    frames: FrameFilter,
) -> npt.NDArray[np.int32]:
    """Return the leaves of the waits that a box of the call tree has."""
    none = np.empty(0, np.int32)
    if not path or path[-1] != table.function_id(syscall_function(LOCK)):
        return none
    stacks = StackReader(profile, table, frames)
    above = list(path[:-1])
    found = [
        node for node in np.unique(intervals.node[waits]).tolist() if stacks.path(node) == above
    ]
    return np.array(found, np.int32)


def _python_functions(
    profile: Profile, table: SymbolTable, nodes: npt.NDArray[np.int32]
) -> npt.NDArray[np.int64]:
    """Return the innermost Python function of each stack, -1 if it has none."""
    trie = profile.trie()
    is_python = np.append(profile.addresses()[0] == MANAGED, False)
    at = nodes.copy()
    while True:
        goes_up = ~is_python[trie.address[at]] & (at > TRUNCATED)
        if not goes_up.any():
            break
        at[goes_up] = trie.parent[at[goes_up]]
    address, which = np.unique(trie.address[at], return_inverse=True)
    functions = [
        table.function_id(table.frames(each)[-1].function) if each >= 0 and is_python[each] else -1
        for each in address.tolist()
    ]
    return np.array(functions, np.int64)[which]


@dataclass(frozen=True)
class LockShare:
    """How the interpreter's lock was used in a recording, elapsed time in nanoseconds."""

    duration_ns: int
    held_ns: int  # by any thread
    awaited_ns: int  # by all threads; where two wait at a time, both count
    n_waiting: int  # threads that waited

    @property
    def held(self) -> float:
        """The part of the elapsed time in which a thread held the lock."""
        return min(1.0, self.held_ns / max(self.duration_ns, 1))


def lock_share(profile: Profile) -> LockShare | None:
    """Return how the lock was used; None if no thread has an interpreter with a lock."""
    if not profile.has_lock:
        return None
    times = profile.lock_times(Clock.WALL)
    waits = times[LockState.AWAITED]
    return LockShare(
        profile.duration_ns, sum(times[LockState.HELD].values()), sum(waits.values()), len(waits)
    )
