"""Build the call trees of a recording, the second one faster than the first.

What a tree has besides weights depends on the stacks and their names only. It is kept until there
are others, and gives the tree of another range, clock or choice of threads in a fifth of the time.

Thread-safe: one thread at a time builds what is kept.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ..model import Clock, Split
from ..recording.names.table import SymbolTable
from ..recording.profile.leaves import LeafWeights
from ..recording.profile.stacks import Trie
from ..recording.profile.store import Profile
from .calltree import CallTree, Skeleton, frames_of, in_kernel
from .frame_filter import FrameFilter
from .selection import Selection

Key = tuple[int, int, int, FrameFilter]
# A tree of fewer of the leaves than one in so many is built faster without all the others.
_PART = 3
# Each leaf has weight by one of them.
_ALL = (Clock.CPU, Clock.WALL)
_CALL_BITS = 16  # of a system call's number
_NONE = -1


@dataclass(frozen=True)
class _Kept:
    key: Key
    of_node: npt.NDArray[np.int32]  # the frame of a stack that ends in no call; _NONE for others
    codes: npt.NDArray[np.int64]  # of the leaves in a call, ascending
    frame: npt.NDArray[np.intp]  # of each
    skeleton: Skeleton

    def find(self, leaves: LeafWeights) -> npt.NDArray[np.intp] | None:
        """Return the frames of leaves; None if there is one that is not known."""
        found = self.of_node[leaves.node].astype(np.intp)
        in_call = np.flatnonzero(leaves.sysno >= 0)
        if len(in_call):
            codes = _codes(leaves.node[in_call], leaves.sysno[in_call])
            at = np.minimum(np.searchsorted(self.codes, codes), max(len(self.codes) - 1, 0))
            if not len(self.codes) or (self.codes[at] != codes).any():
                return None
            found[in_call] = self.frame[at]
        return None if (found == _NONE).any() else found


class TreeBuilder:
    """The trees of one recording.

    Args:
        profile: the recording.
        table: its names.
    """

    def __init__(self, profile: Profile, table: SymbolTable) -> None:
        self._profile = profile
        self._table = table
        self._lock = threading.Lock()
        self._kept: _Kept | None = None

    def build(self, selection: Selection) -> CallTree:
        """Return the tree of a selection, as ``calltree.build`` does."""
        profile, table, frames = self._profile, self._table, selection.frames
        revision = table.revision  # before the names are read: it is never too new for them
        between = selection.between(profile.start_ns, profile.now_ns)
        leaves = profile.leaf_weights(
            selection.clock, selection.thread_ids, *between, holding=frames.only_gil
        )
        trie = profile.trie()
        leaves = in_kernel(leaves, trie, table)
        key = (len(trie.parent), trie.n_addresses, revision, frames)
        kept = frame = None
        if selection.split is Split.NONE:  # else the frames are not those of the stacks alone
            kept, frame = self._find(key, trie, leaves)
        if kept is not None and frame is not None:
            return kept.skeleton.tree(frame, leaves.weight)
        found = frames_of(profile, table, trie, leaves, frames, selection.split)
        return Skeleton(found, table).tree(found.of_leaf, leaves.weight)

    def _find(
        self, key: Key, trie: Trie, leaves: LeafWeights
    ) -> tuple[_Kept | None, npt.NDArray[np.intp] | None]:
        """Return what is kept of all trees, and the frames of leaves; None for what is not."""
        with self._lock:
            kept = self._kept if self._kept and self._kept.key == key else None
            if kept is None and _PART * len(leaves.node) >= self._n_leaves():
                kept = self._kept = self._keep(key, trie, leaves)
        return kept, kept.find(leaves) if kept else None

    def _n_leaves(self) -> int:
        return len(self._profile.leaf_weights(Clock.WALL).node)

    def _keep(self, key: Key, trie: Trie, leaves: LeafWeights) -> _Kept:
        """Return what the trees of these leaves, and of all others of now, have in common."""
        profile, table, frames = self._profile, self._table, key[-1]
        has_end = np.zeros(len(trie.parent), bool)  # of each node: a stack ends there, in no call
        calls = []
        for held in (
            leaves,
            *(profile.leaf_weights(each, holding=frames.only_gil) for each in _ALL),
        ):
            # Stacks that are newer than the trie have no place in it.
            known = in_kernel(held.where(held.node < len(trie.parent)), trie, table)
            in_call = known.sysno >= 0
            has_end[known.node[~in_call]] = True
            calls.append(_codes(known.node[in_call], known.sysno[in_call]))
        ends = np.flatnonzero(has_end).astype(np.int32)
        codes = np.unique(np.concatenate(calls))
        node = np.concatenate((ends, (codes >> _CALL_BITS).astype(np.int32)))
        sysno = np.full(len(node), -1, np.int16)
        sysno[len(ends) :] = codes & ((1 << _CALL_BITS) - 1)
        nothing = np.zeros(len(node), np.uint32)
        every = LeafWeights(nothing, node, sysno, nothing.astype(np.int64))
        found = frames_of(profile, table, trie, every, frames)
        of_node = np.full(len(trie.parent), _NONE, np.int32)
        of_node[ends] = found.of_leaf[: len(ends)]
        frame = found.of_leaf[len(ends) :]
        return _Kept(key, of_node, codes, frame, Skeleton(found, table))


def _codes(node: npt.NDArray[np.int32], sysno: npt.NDArray[np.int16]) -> npt.NDArray[np.int64]:
    """Return a number for each leaf in a call: its node and the call."""
    codes: npt.NDArray[np.int64] = node.astype(np.int64) << _CALL_BITS | sysno.astype(np.int64)
    return codes
