"""Build a call tree from a profile and names, and find the children of its nodes. Pure functions.

A tree is built in three steps, each with numpy over whole levels:

1. Find the leaves that have weight, and all their ancestors in the trie of addresses.
2. Replace each address by its frames. An inlined function comes below the one it is inlined into;
   functions that left no frame (tail calls) come above. A system call becomes one more leaf.
3. From the root down, merge nodes with the same (merged) parent and the same function.

The first two are in ``expand``. A filter hides frames between them: a hidden frame is part of its
caller.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from ..model import Clock, FrameKind, Function, Split
from ..recording.names.table import SymbolTable
from ..recording.profile.leaves import LeafWeights
from ..recording.profile.stacks import Trie
from ..recording.profile.store import Profile
from .expand import Frames, Group, expand, split_by
from .frame_filter import ALL_FRAMES, FrameFilter
from .merge import Lines, merge
from .roots import root_functions
from .shown_frames import ShownFrames, shown_frames

Int32s = npt.NDArray[np.int32]
Int64s = npt.NDArray[np.int64]


@dataclass(frozen=True)
class CallTree:
    """A call tree in columns, one row per node. Node 0 is the root and has the whole weight.

    Rows are in breadth-first order: a parent comes before its children. Siblings are adjacent and
    ordered by name, so boxes keep their positions while weights change. Every node but the root has
    a weight above 0.
    """

    parent: Int32s  # [n]; -1 for the root
    function: Int32s  # [n]; index into functions, -1 for the root
    self_ns: Int64s  # [n]; weight that ends here, nanoseconds of the clock (or samples, see build)
    total_ns: Int64s  # [n]; self_ns plus the children's total_ns
    line: Int32s  # [n]; line of the heaviest address merged into the node, 0 if unknown
    line_file: Int32s  # [n]; index into line_files: the file of that line; 0: the function's file
    depth: Int32s  # [n]; 0 for the root
    functions: Sequence[Function]  # those of the symbol table; not all occur in the tree
    line_files: Sequence[str]  # those of the symbol table; the first is ""
    line_tiers: Sequence[str] = ("",)  # the same: how the function runs at the line
    # Of trees that are compared (see comparison): the own weight of each node here and there.
    sides: tuple[Int64s, ...] = ()
    # Of a tree with folded chains: the function where each node's chain ends, or itself.
    chain_end: Int32s | None = None
    # Of a tree that was turned over: nodes that have more below them than the tree has.
    is_cut: npt.NDArray[np.bool_] | None = None
    # What it was made by, and the number of each of its nodes there: ascending.
    made_by: tuple[weakref.ref[Skeleton], npt.NDArray[np.intp]] | None = None


def build(
    profile: Profile,
    table: SymbolTable,
    clock: Clock,
    thread_ids: frozenset[int] | None = None,
    *,
    split: Split = Split.NONE,
    t0_ns: int | None = None,
    t1_ns: int | None = None,
    count_samples: bool = False,
    frames: FrameFilter = ALL_FRAMES,
    by_line: bool = False,
) -> CallTree:
    """Build the call tree of a profile.

    Args:
        profile: the recording so far.
        table: the names known so far; synthetic functions are added to it.
        clock: the clock of the weights.
        thread_ids: only these threads; None for all.
        split: what is shown apart.
        t0_ns: start of the time range, CLOCK_MONOTONIC of the target; None for the beginning.
        t1_ns: end of the time range; None for the end.
        count_samples: weights are numbers of stacks taken. The time range is then ignored.
        frames: which frames are shown.
        by_line: a Python function has a node for each of its lines, instead of one.
    """
    if count_samples:
        leaves = profile.leaf_samples(clock, thread_ids, holding=frames.only_gil)
    else:
        leaves = profile.leaf_weights(clock, thread_ids, t0_ns, t1_ns, holding=frames.only_gil)
    trie = profile.trie()
    leaves = in_kernel(leaves, trie, table)
    found = frames_of(profile, table, trie, leaves, frames, split)
    return Skeleton(found, table, by_line).tree(found.of_leaf, leaves.weight)


def frames_of(
    profile: Profile,
    table: SymbolTable,
    trie: Trie,
    leaves: LeafWeights,
    frames: FrameFilter,
    split: Split = Split.NONE,
) -> Frames:
    """Return the frames of leaves, which have the system calls of running threads."""
    shown = shown_frames(profile, table, trie, frames)
    group_of_leaf, groups = _groups(profile, table, leaves, shown, split)
    return expand(leaves, group_of_leaf, groups, trie, shown, table)


def _groups(
    profile: Profile, table: SymbolTable, leaves: LeafWeights, shown: ShownFrames, split: Split
) -> tuple[Int32s, list[Group]]:
    """Return the group of each leaf, and the groups."""
    groups = [Group()]
    group_of_leaf = np.zeros(len(leaves.node), np.int32)
    if split is not Split.NONE:
        thread_ids, place = np.unique(leaves.thread_id, return_inverse=True)
        number: dict[Function | None, int] = {}
        found = root_functions(profile, split, thread_ids.tolist())
        group = np.array([number.setdefault(each, len(number)) for each in found], np.int32)
        group_of_leaf = group[place]
        groups = [Group(() if each is None else (table.function_id(each),)) for each in number]
    if shown.has_others:
        own_root = () if shown.other_root < 0 else (shown.other_root,)
        group_of_leaf += len(groups) * shown.is_other[leaves.node].astype(np.int32)
        groups += [Group((*group.roots, *own_root), is_other=True) for group in groups]
    return group_of_leaf, groups


def in_kernel(leaves: LeafWeights, trie: Trie, table: SymbolTable) -> LeafWeights:
    """Return the leaves with the system calls of running threads added.

    The address of a running thread's leaf shows whether it was in a system call.
    """
    kernel = table.kernel()
    if not kernel:
        return leaves
    # The last element is for nodes without an address, whose address id is -1.
    call_at = np.full(trie.n_addresses + 1, -1, np.int16)
    known = [(address, call) for address, call in kernel.items() if address < trie.n_addresses]
    call_at[[address for address, _ in known]] = [call for _, call in known]
    call = call_at[trie.address[leaves.node]]
    return replace(leaves, sysno=np.where(leaves.sysno < 0, call, leaves.sysno))


class Skeleton:
    """All of a call tree but its weights. Makes the trees of any weights of its leaves.

    Args:
        frames: of the leaves.
        table: the names.
        by_line: a Python function has a node for each of its lines, instead of one.
    """

    def __init__(self, frames: Frames, table: SymbolTable, by_line: bool = False) -> None:
        functions, by_rank = table.functions, np.array(table.by_name(), np.int32)
        self._by_line = by_line
        self._frames, self._functions = frames, functions
        self._line_files, self._line_tiers = table.line_files, table.line_tiers
        rank_of = np.empty(len(by_rank), np.int64)
        rank_of[by_rank] = np.arange(len(by_rank))
        # What is merged has the same rank: first by name of the function, then by line.
        rank = rank_of[frames.function]
        if by_line:
            is_python = np.array([each.kind is FrameKind.PYTHON for each in functions], bool)
            line = np.where(is_python[frames.function], frames.line, 0)
            each, rank = np.unique(rank << 32 | line, return_inverse=True)
            by_rank = by_rank[each >> 32]
        self._levels = split_by(frames.depth)
        self._merged = merge(frames.parent, rank, self._levels, len(by_rank))
        self._lines = Lines(self._merged, frames.line, frames.line_file)
        self._function = np.full(len(self._merged), -1, np.int32)
        self._function[1:] = by_rank[self._merged.key[1:]]

    def tree(self, of_leaf: npt.NDArray[np.intp], weight: Int64s) -> CallTree:
        """Return the call tree of some leaves; nodes without weight are left out.

        Args:
            of_leaf: the frame of each leaf.
            weight: of each leaf.
        """
        frames, merged = self._frames, self._merged
        self_of_frame = np.zeros(len(frames.parent), np.int64)
        np.add.at(self_of_frame, of_leaf, weight)
        own_ns = merged.sums(self_of_frame)
        total_ns = merged.totals(own_ns)
        line, line_file = self._lines.of(self._several_totals(self_of_frame))
        parent, depth = merged.parent, merged.depths
        columns: tuple[npt.NDArray[Any], ...]
        columns = (self._function, own_ns, total_ns, line, line_file, depth)
        has_weight = total_ns > 0
        has_weight[0] = True
        nodes = np.flatnonzero(has_weight)
        if len(nodes) < len(has_weight):
            place = np.cumsum(has_weight) - 1
            parent = place[parent[nodes]]
            parent[0] = -1
            columns = tuple(column[nodes] for column in columns)
        function, self_ns, total_ns, line, line_file, depth = columns
        return CallTree(
            parent=parent.astype(np.int32),
            function=function,
            self_ns=self_ns,
            total_ns=total_ns,
            line=line,
            line_file=line_file,
            depth=depth,
            functions=self._functions,
            line_files=self._line_files,
            line_tiers=self._line_tiers,
            made_by=None if self._by_line else (weakref.ref(self), nodes),
        )

    def columns(self, shown: npt.NDArray[np.bool_]) -> tuple[Int32s, Int32s, Int32s]:
        """Return parent, function and depth of the tree of some nodes, with all above them."""
        place = np.cumsum(shown) - 1
        parent = place[self._merged.parent[shown]].astype(np.int32)
        parent[0] = -1
        return parent, self._function[shown], self._merged.depths[shown]

    def __len__(self) -> int:
        return len(self._merged)

    def _several_totals(self, self_of_frame: Int64s) -> Int64s:
        """Return the weight with all below it of each frame that shares its node with others.

        It says whose line is shown.
        """
        total = self_of_frame.copy()
        for frames, above, first in self._below_several:
            total[above] += np.add.reduceat(total[frames], first)
        found: Int64s = total[self._merged.several]
        return found

    @cached_property
    def _below_several(self) -> list[tuple[npt.NDArray[np.intp], Int32s, npt.NDArray[np.intp]]]:
        """The frames below those that share their nodes, from the last level up.

        Of each level: the frames, by the frame above; these, and the first frame below each.
        """
        parent = self._frames.parent
        is_below = np.zeros(len(parent), bool)
        is_below[self._merged.several] = True
        found = []
        for level in self._levels[1:]:
            frames = level[is_below[parent[level]]]
            is_below[frames] = True
            if not len(frames):
                continue
            frames = frames[np.argsort(parent[frames], kind="stable")]
            above = parent[frames]
            first = np.flatnonzero(np.diff(above, prepend=-1))
            found.append((frames, above[first], first))
        return found[::-1]


def children(tree: CallTree) -> tuple[Int32s, Int32s]:
    """Find the children of each node.

    Returns:
        ``(first, count)``, int32[n] each: the children of node ``i`` are the nodes ``first[i]`` to
        ``first[i] + count[i] - 1``.
    """
    count = np.bincount(tree.parent[1:], minlength=len(tree.parent)).astype(np.int32)
    first = np.searchsorted(tree.parent, np.arange(len(tree.parent)))
    return first.astype(np.int32), count
