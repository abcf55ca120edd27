"""Turn leaves with weight into frames: the first two steps of ``calltree``. Pure functions.

A *place* is a node of the trie with weight in or below it, once for each group of leaves: each
thread, where threads are separated, and the stacks with and without Python frames, where a filter
treats them differently. A place has any number of frames: those of the address, and of functions
that left none before it. It may have none; then its weight belongs to the caller.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ..recording.names.frame_pool import FramePool
from ..recording.names.table import SymbolTable
from ..recording.profile.leaves import LeafWeights
from ..recording.profile.stacks import ROOT, TRUNCATED, Trie
from .own_frames import SYNTHETIC, syscall_function
from .shown_frames import ShownFrames

Int32s = npt.NDArray[np.int32]
Int64s = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Group:
    """Leaves that share no place with other groups."""

    roots: Sequence[int] = ()  # ids of the functions at the root of their stacks
    is_other: bool = False  # stacks without a Python frame; see ``ShownFrames``


@dataclass(frozen=True)
class _Places:
    """Places in columns."""

    node: Int32s
    group: Int32s
    parent: Int32s  # index into these arrays; 0 for the roots
    levels: list[npt.NDArray[np.intp]]  # the places of each depth in the trie
    of_leaf: Int32s  # the place of each leaf row


@dataclass(frozen=True)
class Frames:
    """The frames of all places, in columns. Frame 0 is the root of the whole tree."""

    parent: Int32s
    function: Int32s
    line: Int32s
    line_file: Int32s
    depth: Int32s
    of_leaf: npt.NDArray[np.intp]  # the frame of each leaf row


def expand(
    leaves: LeafWeights,
    group_of_leaf: Int32s,
    groups: Sequence[Group],
    trie: Trie,
    shown: ShownFrames,
    table: SymbolTable,
) -> Frames:
    """Return the frames of all stacks with weight.

    Args:
        leaves: those with weight.
        group_of_leaf: the group of each leaf, an index into ``groups``.
        groups: at least one.
        trie: the stacks.
        shown: the frames of each address.
        table: the names; synthetic functions are added to it.
    """
    places = _places(trie, leaves.node, group_of_leaf)
    pool = shown.pool
    # Append synthetic frames to pool and addresses, so that the code below treats all alike: those
    # of synthetic nodes, then the roots of each group.
    extra = [table.function_id(function) for function in SYNTHETIC.values()]
    extra_counts = [1] * len(extra) + [len(group.roots) for group in groups]
    extra += [function for group in groups for function in group.roots]
    n, n_synthetic, n_pool = len(pool.first), len(SYNTHETIC), len(pool.functions)
    pool_function = np.concatenate((pool.functions, np.array(extra, np.int32)))
    pool_line = np.concatenate((pool.lines, np.zeros(len(extra), np.int32)))
    pool_file = np.concatenate((pool.line_files, np.zeros(len(extra), np.int32)))
    count_of = np.concatenate((pool.count, np.array(extra_counts, np.int32)))
    extra_first = n_pool + np.cumsum(extra_counts) - np.array(extra_counts)
    first_of = np.concatenate((pool.first, extra_first.astype(np.int32)))
    lift = np.array([shown.n_addresses * group.is_other for group in groups], np.int32)
    address = trie.address[places.node] + lift[places.group]
    for i, node in enumerate(SYNTHETIC):
        address[places.node == node] = n + i
    is_root = places.node == ROOT
    address[is_root] = n + n_synthetic + places.group[is_root]
    first, own_count = first_of[address], count_of[address]
    lost_first, lost_count = _lost(pool, address[places.parent], address, n)
    count = own_count + lost_count

    # Frame 0 is the root of the whole tree. A place has count consecutive frames, innermost last.
    start = 1 + np.cumsum(count, dtype=np.int32) - count
    last = np.where(count > 0, start + count - 1, 0)
    depth_of_last = count.copy()
    has_empty = bool((count[~is_root] == 0).any())
    for level in places.levels[1:]:
        above = places.parent[level]
        depth_of_last[level] += depth_of_last[above]
        if has_empty:
            last[level] = np.where(count[level] > 0, last[level], last[above])
    place = np.repeat(np.arange(len(address), dtype=np.int32), count)
    frame = np.arange(1, len(place) + 1, dtype=np.int32)
    step = frame - start[place]
    in_pool = first[place] + step
    if pool.lost_pairs:
        lost = lost_count[place]
        in_pool = np.where(step < lost, lost_first[place] + step, in_pool - lost)
    above_place = np.where(is_root, 0, last[places.parent])
    above = np.where(step > 0, frame - 1, above_place[place])

    # Add one leaf for each place and system call, and for each place whose stack shows no frame.
    waits = leaves.sysno >= 0
    is_bare = np.zeros(len(waits), bool)
    if has_empty and shown.other_root < 0:
        is_bare = ~waits & _are_bare(places, count)[places.of_leaf]
    ends_in, which, end_function = _leaf_functions(
        places, leaves.sysno, waits, is_bare, trie, shown, table
    )
    leaf_frame = last[places.of_leaf]
    leaf_frame[waits | is_bare] = 1 + len(place) + which

    def column(root: int, frames: npt.NDArray[Any], ends: npt.ArrayLike) -> Int32s:
        return np.concatenate(((root,), frames, np.asarray(ends, np.int32)), dtype=np.int32)

    return Frames(
        parent=column(-1, above, last[ends_in]),
        function=column(-1, pool_function[in_pool], end_function),
        line=column(0, pool_line[in_pool], np.zeros(len(ends_in))),
        line_file=column(0, pool_file[in_pool], np.zeros(len(ends_in))),
        depth=column(0, depth_of_last[place] - count[place] + 1 + step, depth_of_last[ends_in] + 1),
        of_leaf=leaf_frame.astype(np.intp),
    )


def _leaf_functions(
    places: _Places,
    sysno: npt.NDArray[np.integer],
    waits: npt.NDArray[np.bool_],
    is_bare: npt.NDArray[np.bool_],
    trie: Trie,
    shown: ShownFrames,
    table: SymbolTable,
) -> tuple[Int64s, Int64s, Int32s]:
    """Return the leaves to add: the place and the function of each, and which one each row has.

    The rows are those of ``waits`` (system calls) and ``is_bare`` (the innermost frame of a stack
    that shows no other).
    """
    more = waits | is_bare
    # A system call's number has 16 bits; the one above them marks a bare stack.
    code = np.where(is_bare, 1 << 16, sysno.astype(np.int64))[more]
    end_at, which = np.unique(
        places.of_leaf[more].astype(np.int64) << 17 | code, return_inverse=True
    )
    ends_in, code = end_at >> 17, end_at & 0x1FFFF
    function = np.zeros(len(end_at), np.int32)
    bare = code >> 16 > 0
    if bare.any():
        address = trie.address[places.node[ends_in[bare]]]
        innermost = np.array(shown.whole.first) + np.array(shown.whole.count) - 1
        function[bare] = np.array(shown.whole.functions, np.int32)[innermost[address]]
    sysnos, which_sysno = np.unique(code[~bare], return_inverse=True)
    functions = [table.function_id(syscall_function(each)) for each in sysnos.tolist()]
    function[~bare] = np.array(functions, np.int32)[which_sysno]
    return ends_in, which, function


def _are_bare(places: _Places, count: Int32s) -> npt.NDArray[np.bool_]:
    """Return for which places no address from the root to them has a frame."""
    bare: npt.NDArray[np.bool_] = (count == 0) | (places.node <= TRUNCATED)
    for level in places.levels[1:]:
        bare[level] &= bare[places.parent[level]]
    bare[places.node <= TRUNCATED] = False
    return bare


def _places(trie: Trie, leaf_node: Int32s, leaf_group: Int32s) -> _Places:
    n = len(trie.parent)
    place_of = np.full(n, -1, np.int32)  # node → place, for one group after the other
    nodes, groups, parents = [], [], []
    of_leaf = np.empty(len(leaf_node), np.int32)
    n_places = 0
    for group, rows in enumerate(split_by(leaf_group)):
        start, found = n_places, []
        new = leaf_node[rows]
        while len(new):
            new = new[place_of[new] < 0]
            place_of[new] = np.arange(len(new))  # of duplicates, the last one remains
            new = new[place_of[new] == np.arange(len(new))]
            place_of[new] = np.arange(n_places, n_places + len(new))
            n_places += len(new)
            found.append(new)
            new = trie.parent[new[new != ROOT]]
        node = np.concatenate((np.empty(0, np.int32), *found))
        nodes.append(node)
        groups.append(np.full(n_places - start, group, np.int32))
        parents.append(np.where(node == ROOT, 0, place_of[trie.parent[node]]))
        of_leaf[rows] = place_of[leaf_node[rows]]
        place_of[node] = -1
    all_nodes = np.concatenate(nodes)
    return _Places(
        node=all_nodes,
        group=np.concatenate(groups),
        parent=np.concatenate(parents),
        levels=split_by(trie.depth[all_nodes]),
        of_leaf=of_leaf,
    )


def split_by(number: Int32s) -> list[npt.NDArray[np.intp]]:
    """Return the rows with number 0, those with number 1, and so on, each in their old order."""
    # numpy sorts 16-bit numbers by radix, which is many times faster.
    is_small = number.max(initial=0) < 1 << 16
    order = np.argsort(number.astype(np.uint16) if is_small else number, kind="stable")
    return np.split(order, np.cumsum(np.bincount(number))[:-1])


def _lost(
    pool: FramePool, caller: Int32s, callee: Int32s, n_addresses: int
) -> tuple[Int32s, Int32s]:
    """Return for each pair of addresses the first lost frame between them, and their number.

    A lost frame is that of a tail call; the first one is an index into the pool.
    """
    first, count = np.zeros(len(callee), np.int32), np.zeros(len(callee), np.int32)
    if pool.lost_pairs:
        pairs = caller.astype(np.int64) << 32 | callee
        known = np.array(pool.lost_pairs, np.int64)
        at = np.minimum(np.searchsorted(known, pairs), len(known) - 1)
        found = (known[at] == pairs) & (caller < n_addresses) & (callee < n_addresses)
        first[found] = np.array(pool.lost_first, np.int32)[at[found]]
        count[found] = np.array(pool.lost_count, np.int32)[at[found]]
    return first, count
