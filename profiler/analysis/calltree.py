"""Build a call tree from a profile and names, and find the children of its nodes. Pure functions.

A tree is built in three steps, each with numpy over whole levels:

1. Find the leaves that have weight, and all their ancestors in the trie of addresses.
2. Replace each address by its frames. An inlined function comes below the one it is inlined into;
   functions that left no frame (tail calls) come above. A system call becomes one more leaf.
3. From the root down, merge nodes with the same (merged) parent and the same function.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from ..linux.syscalls import LOCK, QUEUED, syscall_name
from ..model import Clock, FrameKind, Function, Thread
from ..profile.leaves import LeafWeights
from ..profile.stacks import ROOT, TABLE_FULL, TRUNCATED, UNATTRIBUTED, Trie
from ..profile.store import Profile
from ..symbols.names.table import FramePool, SymbolTable

Int32s = npt.NDArray[np.int32]
Int64s = npt.NDArray[np.int64]

UNATTRIBUTED_FUNCTION = Function("[unattributed]", "", kind=FrameKind.SYNTHETIC)
TABLE_FULL_FUNCTION = Function("[stack table full]", "", kind=FrameKind.SYNTHETIC)
TRUNCATED_FUNCTION = Function("[truncated]", "", kind=FrameKind.SYNTHETIC)

SYNTHETIC = {
    UNATTRIBUTED: UNATTRIBUTED_FUNCTION,
    TABLE_FULL: TABLE_FULL_FUNCTION,
    TRUNCATED: TRUNCATED_FUNCTION,
}
"""Synthetic nodes of the trie → their functions."""


def syscall_function(sysno: int) -> Function:
    """Return the leaf frame of a thread that waits or runs in a system call."""
    kind = FrameKind.SYNTHETIC if sysno in (LOCK, QUEUED) else FrameKind.SYSCALL
    return Function(f"[{syscall_name(sysno)}]", "", kind=kind)


def thread_function(thread: Thread) -> Function:
    """Return the root frame of a thread.

    The kernel may reuse a tid, so the full name has our thread id, too.
    """
    name = f"{thread.name} ({thread.tid})"
    return Function(name, "", "", FrameKind.SYNTHETIC, f"{name}, thread {thread.thread_id}")


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


@dataclass(frozen=True)
class _Places:
    """Nodes of the trie with weight in or below them; with ``by_thread`` once for each thread."""

    node: Int32s
    group: Int32s  # index of the thread, 0 if threads are not separated
    parent: Int32s  # index into these arrays; 0 for the roots
    levels: list[npt.NDArray[np.intp]]  # the places of each depth in the trie
    of_leaf: Int32s  # the place of each leaf row


@dataclass(frozen=True)
class _Frames:
    """The frames of all places, in columns. Frame 0 is the root of the whole tree."""

    parent: Int32s
    function: Int32s
    line: Int32s
    line_file: Int32s
    depth: Int32s
    self_ns: Int64s


def build(
    profile: Profile,
    table: SymbolTable,
    clock: Clock,
    thread_ids: frozenset[int] | None = None,
    by_thread: bool = False,
    *,
    t0_ns: int | None = None,
    t1_ns: int | None = None,
    count_samples: bool = False,
) -> CallTree:
    """Build the call tree of a profile.

    Args:
        profile: the recording so far.
        table: the names known so far; synthetic functions are added to it.
        clock: the clock of the weights.
        thread_ids: only these threads; None for all.
        by_thread: begin with a frame per thread, "name (tid)".
        t0_ns: start of the time range, CLOCK_MONOTONIC of the target; None for the beginning.
        t1_ns: end of the time range; None for the end.
        count_samples: weights are numbers of stacks taken. The time range is then ignored.
    """
    if count_samples:
        leaves = profile.leaf_samples(clock, thread_ids)
    else:
        leaves = profile.leaf_weights(clock, thread_ids, t0_ns, t1_ns)
    trie = profile.trie()
    leaves = in_kernel(leaves, trie, table)
    root_functions = None
    group_of_leaf = np.zeros(len(leaves.node), np.int32)
    if by_thread:
        groups = np.unique(leaves.thread_id)
        group_of_leaf = np.searchsorted(groups, leaves.thread_id).astype(np.int32)
        threads = profile.threads
        root_functions = [
            table.function_id(thread_function(threads.get(i) or Thread(i, 0, "?")))
            for i in groups.tolist()
        ]
    places = _places(trie, leaves.node, group_of_leaf)
    return _merge(_expand(places, trie, table, leaves, root_functions), table)


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


def _places(trie: Trie, leaf_node: Int32s, leaf_group: Int32s) -> _Places:
    n = len(trie.parent)
    place_of = np.full(n, -1, np.int32)  # node → place, for one group after the other
    nodes, groups, parents = [], [], []
    of_leaf = np.empty(len(leaf_node), np.int32)
    n_places = 0
    for group, rows in enumerate(_split_by(leaf_group)):
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
        levels=_split_by(trie.depth[all_nodes]),
        of_leaf=of_leaf,
    )


def _split_by(number: Int32s) -> list[npt.NDArray[np.intp]]:
    """Return the rows with number 0, those with number 1, and so on, each in their old order."""
    # numpy sorts 16-bit numbers by radix, which is many times faster.
    is_small = number.max(initial=0) < 1 << 16
    order = np.argsort(number.astype(np.uint16) if is_small else number, kind="stable")
    return np.split(order, np.cumsum(np.bincount(number))[:-1])


def _expand(
    places: _Places,
    trie: Trie,
    table: SymbolTable,
    leaves: LeafWeights,
    root_functions: list[int] | None,
) -> _Frames:
    pool = table.pool(trie.n_addresses)
    # Append synthetic frames to pool and addresses, so that the code below treats all alike:
    # those of synthetic nodes, then the roots. Roots have no frame if threads are not separated.
    extra = [table.function_id(function) for function in SYNTHETIC.values()]
    n_synthetic = len(extra)
    extra += root_functions or ()
    extra_counts = (
        np.ones(len(extra), np.int32) if root_functions is not None else (*n_synthetic * (1,), 0)
    )
    n, n_pool = trie.n_addresses, len(pool.functions)
    pool_function = np.concatenate((pool.functions, np.array(extra, np.int32)))
    pool_line = np.concatenate((pool.lines, np.zeros(len(extra), np.int32)))
    pool_file = np.concatenate((pool.line_files, np.zeros(len(extra), np.int32)))
    first_of = np.concatenate((pool.first, n_pool + np.arange(len(extra_counts), dtype=np.int32)))
    count_of = np.concatenate((pool.count, extra_counts))
    address = trie.address[places.node]
    for i, node in enumerate(SYNTHETIC):
        address[places.node == node] = n + i
    is_root = places.node == ROOT
    address[is_root] = n + n_synthetic + places.group[is_root]
    first, own_count = first_of[address], count_of[address]
    lost_first, lost_count = _lost(pool, address[places.parent], address, n)
    count = own_count + lost_count

    # Frame 0 is the root of the whole tree. A place has count consecutive frames, innermost last.
    start = 1 + np.cumsum(count) - count
    last = np.where(count > 0, start + count - 1, 0)
    depth_of_last = count.copy()
    for level in places.levels[1:]:
        depth_of_last[level] += depth_of_last[places.parent[level]]
    place = np.repeat(np.arange(len(address)), count)
    frame = np.arange(1, len(place) + 1)
    step = frame - start[place]
    in_pool = np.where(
        step < lost_count[place],
        lost_first[place] + step,
        first[place] + step - lost_count[place],
    )
    above = np.where(step > 0, frame - 1, np.where(is_root, 0, last[places.parent])[place])

    # Add one leaf for each place and system call.
    waits = leaves.sysno >= 0
    call_at, which = np.unique(
        places.of_leaf[waits].astype(np.int64) << 16 | leaves.sysno[waits], return_inverse=True
    )
    call_place = call_at >> 16
    sysnos, which_sysno = np.unique(call_at & 0xFFFF, return_inverse=True)
    sysno_functions = [table.function_id(syscall_function(sysno)) for sysno in sysnos.tolist()]
    call_function = np.array(sysno_functions, np.int32)[which_sysno]
    leaf_frame = last[places.of_leaf]
    leaf_frame[waits] = 1 + len(place) + which
    self_ns = np.zeros(1 + len(place) + len(call_at), np.int64)
    np.add.at(self_ns, leaf_frame, leaves.weight)

    def column(root: int, frames: npt.NDArray[Any], calls: npt.ArrayLike) -> Int32s:
        return np.concatenate(((root,), frames, np.asarray(calls, np.int32)), dtype=np.int32)

    return _Frames(
        parent=column(-1, above, last[call_place]),
        function=column(-1, pool_function[in_pool], call_function),
        line=column(0, pool_line[in_pool], np.zeros(len(call_at))),
        line_file=column(0, pool_file[in_pool], np.zeros(len(call_at))),
        depth=column(
            0, depth_of_last[place] - count[place] + 1 + step, depth_of_last[call_place] + 1
        ),
        self_ns=self_ns,
    )


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


def _merge(frames: _Frames, table: SymbolTable) -> CallTree:
    functions = table.functions
    functions, by_rank = table.functions, np.array(table.by_name(), np.int32)
    rank_of = np.empty(len(by_rank), np.int64)
    rank_of[by_rank] = np.arange(len(by_rank))
    levels = _split_by(frames.depth)[1:]

    merged = np.zeros(len(frames.parent), np.int64)
    parent, function = [np.array((-1,))], [np.array((-1,), np.int32)]
    n = 1
    for level in levels:
        rank = rank_of[frames.function[level]]
        key, which = np.unique(
            merged[frames.parent[level]] * len(by_rank) + rank, return_inverse=True
        )
        merged[level] = n + which
        parent.append(key // len(by_rank))
        function.append(by_rank[key % len(by_rank)])
        n += len(key)

    total_of_frame = frames.self_ns.copy()
    for level in reversed(levels):
        np.add.at(total_of_frame, frames.parent[level], total_of_frame[level])
    self_ns, total_ns = np.zeros(n, np.int64), np.zeros(n, np.int64)
    np.add.at(self_ns, merged, frames.self_ns)
    np.add.at(total_ns, merged, total_of_frame)
    heaviest, line, depth = np.zeros(n, np.int64), np.zeros(n, np.int32), np.zeros(n, np.int32)
    line_file = np.zeros(n, np.int32)
    has_line = frames.line > 0
    np.maximum.at(heaviest, merged[has_line], total_of_frame[has_line])
    is_heaviest = has_line & (total_of_frame == heaviest[merged])
    line[merged[is_heaviest]] = frames.line[is_heaviest]
    line_file[merged[is_heaviest]] = frames.line_file[is_heaviest]
    depth[merged] = frames.depth
    return CallTree(
        parent=np.concatenate(parent).astype(np.int32),
        function=np.concatenate(function),
        self_ns=self_ns,
        total_ns=total_ns,
        line=line,
        line_file=line_file,
        depth=depth,
        functions=functions,
        line_files=table.line_files,
    )


def children(tree: CallTree) -> tuple[Int32s, Int32s]:
    """Find the children of each node.

    Returns:
        ``(first, count)``, int32[n] each: the children of node ``i`` are the nodes ``first[i]`` to
        ``first[i] + count[i] - 1``.
    """
    count = np.bincount(tree.parent[1:], minlength=len(tree.parent)).astype(np.int32)
    first = np.searchsorted(tree.parent, np.arange(len(tree.parent)))
    return first.astype(np.int32), count
