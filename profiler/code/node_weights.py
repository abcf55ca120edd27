"""Compute weights on the trie of addresses, and sums that count each stack only once.

The trees of ``tree.calltree`` are merged by function. Weights per module, per line or per
instruction need addresses, which only the trie has.

With a frame filter, the weight of a hidden frame is its caller's own. Where a filter treats stacks
with and without Python frames differently, the trie holds them apart: a second copy of it for the
latter, below the root, with the second ids of their addresses (see ``tree.shown_frames``).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from ..linux.syscalls import syscall_number
from ..model import KERNEL_FRAME, Clock
from ..recording.names.frame_pool import FramePool
from ..recording.names.table import SymbolTable
from ..recording.profile.stacks import TABLE_FULL, UNATTRIBUTED, Trie
from ..recording.profile.store import Profile
from ..tree.calltree import in_kernel
from ..tree.selection import Selection
from ..tree.shown_frames import ShownFrames, shown_frames

Ints = npt.NDArray[np.integer]
Int64s = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class NodeWeights:
    """A trie and the weights of its nodes in nanoseconds of one clock, one row per node."""

    trie: Trie
    pool: FramePool  # the shown frames of the trie's addresses
    profile_addresses: int  # the ids of the profile's addresses are those of the trie modulo this
    self_ns: Int64s  # of stacks that end here and not in a system call
    in_call_ns: Int64s  # of stacks that end here in a system call, running or waiting
    total_ns: Int64s  # of all stacks that contain the node

    @property
    def sum_ns(self) -> int:
        """The weight of all stacks."""
        return int(self.total_ns[0])

    @cached_property
    def _preorder(self) -> tuple[Int64s, Int64s]:
        """Each node's rank in depth-first order, and one past the rank of its last descendant."""
        parent = self.trie.parent
        order, levels = _by_level(self.trie)
        size = np.ones(len(parent), np.int64)
        for level in reversed(levels[1:]):
            np.add.at(size, parent[level], size[level])
        # Siblings are adjacent in ``order``: a running sum gives the sizes of the earlier ones.
        before = np.cumsum(size[order]) - size[order]
        is_first = np.ones(len(order), bool)
        is_first[1:] = parent[order[1:]] != parent[order[:-1]]
        before -= before[np.flatnonzero(is_first)][np.cumsum(is_first) - 1]
        elder = np.empty(len(order), np.int64)
        elder[order] = before
        rank = np.zeros(len(order), np.int64)
        for level in levels[1:]:
            rank[level] = rank[parent[level]] + 1 + elder[level]
        return rank, rank + size

    def sum_outermost(self, keys: Ints, nodes: Ints, n_keys: int) -> Int64s:
        """Sum for each key the weight of all stacks that contain it, each stack once.

        Args:
            keys: a key below ``n_keys`` for each of ``nodes``.
            nodes: the nodes that have the key, in any order; each pair of key and node once.
            n_keys: the number of keys.

        Returns:
            int64[n_keys], nanoseconds.
        """
        sums = np.zeros(n_keys, np.int64)
        if not len(nodes):
            return sums
        rank, end = self._preorder
        order = np.lexsort((rank[nodes], keys))
        keys, nodes = keys[order].astype(np.int64), nodes[order]
        # One running maximum serves all keys: the ranks of each key are above those of the last.
        lift = keys * (len(rank) + 1)
        ends = np.maximum.accumulate(end[nodes] + lift)
        is_outermost = np.ones(len(nodes), bool)
        is_outermost[1:] = rank[nodes[1:]] + lift[1:] >= ends[:-1]
        np.add.at(sums, keys[is_outermost], self.total_ns[nodes[is_outermost]])
        return sums


def node_weights(
    profile: Profile,
    table: SymbolTable,
    selection: Selection,
) -> NodeWeights:
    """Compute the weights of a profile's trie.

    Args:
        profile: the recording so far.
        table: the names; it knows which addresses are system calls.
        selection: what is counted.
    """
    t0_ns, t1_ns = selection.between(profile.start_ns, profile.now_ns)
    frames = selection.frames
    leaves = profile.leaf_weights(
        selection.clock, selection.thread_ids, t0_ns, t1_ns, holding=frames.only_gil
    )
    trie = profile.trie()  # read after the leaves, so it has all their nodes
    leaves = in_kernel(leaves, trie, table)
    shown = shown_frames(profile, table, trie, frames)
    node = leaves.node
    if shown.has_others:
        node = node + len(trie.parent) * shown.is_other[node]
        trie = _twice(trie)
    n = len(trie.parent)
    ends_ns, in_call_ns = np.zeros(n, np.int64), np.zeros(n, np.int64)
    is_in_call = leaves.sysno >= 0
    np.add.at(ends_ns, node[~is_in_call], leaves.weight[~is_in_call])
    np.add.at(in_call_ns, node[is_in_call], leaves.weight[is_in_call])
    total_ns = ends_ns + in_call_ns
    for level in reversed(_by_level(trie)[1][1:]):
        np.add.at(total_ns, trie.parent[level], total_ns[level])
    ends_ns, in_call_ns = _at_shown(trie, shown, ends_ns, in_call_ns)
    return NodeWeights(trie, shown.pool, shown.n_addresses, ends_ns, in_call_ns, total_ns)


def _twice(trie: Trie) -> Trie:
    """Return a trie with a second copy of itself below its root."""
    n, n_addresses = len(trie.parent), trie.n_addresses
    parent = trie.parent + np.int32(n)
    parent[0] = 0
    address = np.where(trie.address >= 0, trie.address + np.int32(n_addresses), trie.address)
    return Trie(
        np.concatenate((trie.parent, parent)),
        np.concatenate((trie.address, address)),
        np.concatenate((trie.depth, trie.depth + np.int32(1))),
        2 * n_addresses,
    )


def _at_shown(trie: Trie, shown: ShownFrames, *weights: Int64s) -> list[Int64s]:
    """Return weights with those of addresses without a frame moved to their callers."""
    is_empty = np.append(np.array(shown.pool.count) == 0, False)[trie.address]
    if not is_empty.any():
        return list(weights)
    to = np.where(is_empty, trie.parent, np.arange(len(is_empty)))
    while is_empty[to].any():
        to = to[to]
    moved = [np.zeros_like(column) for column in weights]
    for column, before in zip(moved, weights, strict=True):
        np.add.at(column, to, before)
    return moved


@dataclass(frozen=True)
class SeenCpu:
    """The recorded CPU time of one or more threads."""

    with_stack_ns: int
    system_ns: int  # the part of with_stack_ns in system calls, or of threads of the kernel
    unblocking_ns: int  # the part of system_ns in rt_sigprocmask
    without_stack_ns: int
    samples: int

    @property
    def total_ns(self) -> int:
        """CPU time with and without a stack."""
        return self.with_stack_ns + self.without_stack_ns

    def __add__(self, other: SeenCpu) -> SeenCpu:
        return SeenCpu(
            self.with_stack_ns + other.with_stack_ns,
            self.system_ns + other.system_ns,
            self.unblocking_ns + other.unblocking_ns,
            self.without_stack_ns + other.without_stack_ns,
            self.samples + other.samples,
        )


def cpu_by_thread(profile: Profile, table: SymbolTable) -> dict[int, SeenCpu]:
    """Return the CPU time by thread id, for threads that have any."""
    leaves, taken = profile.leaf_weights(Clock.CPU), profile.leaf_samples(Clock.CPU)
    trie = profile.trie()
    leaves = in_kernel(leaves, trie, table)
    thread_ids = np.unique(np.concatenate((leaves.thread_id, taken.thread_id)))

    def sums(threads: Ints, weights: Int64s) -> list[int]:
        found = np.zeros(len(thread_ids), np.int64)
        np.add.at(found, np.searchsorted(thread_ids, threads), weights)
        return [int(each) for each in found]

    has_none = np.isin(leaves.node, (UNATTRIBUTED, TABLE_FULL))
    is_system = ~has_none & ((leaves.sysno >= 0) | _are_of_kernel(leaves.node, profile, trie))
    unblocks = ~has_none & (leaves.sysno == syscall_number("rt_sigprocmask"))
    columns = (
        sums(leaves.thread_id[~has_none], leaves.weight[~has_none]),
        sums(leaves.thread_id[is_system], leaves.weight[is_system]),
        sums(leaves.thread_id[unblocks], leaves.weight[unblocks]),
        sums(leaves.thread_id[has_none], leaves.weight[has_none]),
        sums(taken.thread_id, taken.weight),
    )
    seen = (SeenCpu(*row) for row in zip(*columns, strict=True))
    by_thread = zip(thread_ids.tolist(), seen, strict=True)
    return {thread_id: each for thread_id, each in by_thread if each.total_ns}


def _are_of_kernel(node: Ints, profile: Profile, trie: Trie) -> npt.NDArray[np.bool_]:
    """Return which of some nodes are all that a thread of the kernel shows."""
    module_ids, addrs = profile.addresses()
    is_kernel = np.append(
        (module_ids == KERNEL_FRAME.module_id) & (addrs == KERNEL_FRAME.addr), False
    )  # and of none
    return is_kernel[trie.address[node]]


def _by_level(trie: Trie) -> tuple[Int64s, list[Int64s]]:
    """Return the nodes by depth with siblings adjacent, and the same split by depth."""
    order = np.lexsort((trie.parent, trie.depth))
    bounds = np.cumsum(np.bincount(trie.depth))[:-1]
    return order, np.split(order, bounds)
