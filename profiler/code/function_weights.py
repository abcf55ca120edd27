"""Compute the weight of one function, by line and by address.

The self weight of a line is that of the stacks that end in it: in the function itself, not in a
function inlined there. Its total weight is that of all stacks that contain it, each counted once
even if the line occurs several times. As in the call tree, the stack of a thread in a system call
ends in that call. Therefore its weight is part of totals only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ..recording.names.frame_pool import FramePool
from ..recording.profile.store import Profile
from .node_weights import NodeWeights

Ints = npt.NDArray[np.integer]
Int64s = npt.NDArray[np.int64]

_LINE_BITS = 31  # the table's lines are below 2^31


@dataclass(frozen=True, eq=False)
class LineWeights:
    """The lines of one function that have weight, by file and line, in columns."""

    line_file: Int64s  # index into SymbolTable.line_files; 0, the function's own file, is first
    line: Int64s  # 0 if unknown
    self_ns: Int64s
    total_ns: Int64s
    function_self_ns: int  # the sum of self_ns
    function_total_ns: int  # at most the sum of total_ns: a stack may contain several lines


@dataclass(frozen=True, eq=False)
class Places:
    """The addresses at which a function occurs, in columns, by module and address."""

    address: Int64s  # address id in the trie of the weights
    module_id: Int64s
    # file_addr, in module 0 runtime_addr; of a caller, it lies within the call instruction
    addr: Int64s
    total_ns: Int64s  # of stacks that contain this address, each counted once


def line_weights(weights: NodeWeights, function_ids: Sequence[int]) -> LineWeights:
    """Compute the weight of each line of a function.

    Args:
        weights: the weights of the profile for one clock and set of threads.
        function_ids: the table's ids of the function.
    """
    pool = weights.pool
    address, place, is_last = _occurrences(pool, function_ids)
    order = np.argsort(address, kind="stable")
    nodes, row = _nodes_at(weights, address[order])
    lost_nodes, lost_places = _lost(pool, weights, function_ids)
    nodes = np.concatenate((nodes, lost_nodes))
    found, key = np.unique(np.concatenate((place[order][row], lost_places)), return_inverse=True)
    # A function may be inlined into itself: count each pair once.
    pairs = np.unique(nodes * (len(found) + 1) + key)
    totals = weights.sum_outermost(pairs % (len(found) + 1), pairs // (len(found) + 1), len(found))
    whole = np.unique(nodes)
    total = weights.sum_outermost(np.zeros(len(whole), np.int64), whole, 1)

    own = np.zeros(len(found), np.int64)
    own_of = _by_address(weights, weights.self_ns)[address[is_last]]
    weighs = own_of > 0
    np.add.at(own, np.searchsorted(found, place[is_last][weighs]), own_of[weighs])
    file, line = found >> _LINE_BITS, found & ((1 << _LINE_BITS) - 1)
    return LineWeights(file, line, own, totals, int(own.sum()), int(total[0]))


def places(profile: Profile, weights: NodeWeights, function_ids: Sequence[int]) -> Places:
    """Return the addresses with weight at which a function occurs, inlined or not.

    Args:
        profile: the recording.
        weights: the weights of the profile for one clock and set of threads.
        function_ids: the table's ids of the function.
    """
    address = np.unique(_occurrences(weights.pool, function_ids)[0])
    totals = address_weights(weights, address, np.arange(len(address)), len(address))[1]
    module_ids, addrs = profile.addresses()
    at = address % weights.profile_addresses
    order = np.lexsort((addrs[at], module_ids[at]))
    order = order[totals[order] > 0]
    at = at[order]
    return Places(
        address[order], module_ids[at].astype(np.int64), addrs[at].astype(np.int64), totals[order]
    )


def address_weights(
    weights: NodeWeights, address: Int64s, keys: Ints, n_keys: int
) -> tuple[Int64s, Int64s]:
    """Compute the weight of groups of addresses, such as those of one instruction.

    Args:
        weights: the weights of the profile.
        address: address ids, each once.
        keys: the group of each address, below ``n_keys``.
        n_keys: the number of groups.

    Returns:
        Two int64[n_keys]: the weight of stacks that end in the group and not in a system call; the
        weight of stacks that contain the group, each counted once.
    """
    order = np.argsort(address, kind="stable")
    address, keys = address[order], keys[order]
    own = np.zeros(n_keys, np.int64)
    np.add.at(own, keys, _by_address(weights, weights.self_ns)[address])
    nodes, row = _nodes_at(weights, address)
    return own, weights.sum_outermost(keys[row], nodes, n_keys)


def _occurrences(
    pool: FramePool, function_ids: Sequence[int]
) -> tuple[Int64s, Int64s, npt.NDArray[np.bool_]]:
    """Find a function among the frames of all addresses.

    Return columns, one row per frame found: address id, source position (see :func:`_places_of`),
    and whether the frame is the innermost one of its address.
    """
    count = np.array(pool.count, np.int64)
    address = np.repeat(np.arange(len(count)), count)
    starts = np.cumsum(count) - count
    step = np.arange(len(address)) - starts[address]
    at = np.array(pool.first, np.int64)[address] + step
    found = np.isin(np.array(pool.functions), np.array(function_ids, np.int64))[at]
    address, step = address[found], step[found]
    return address, _places_of(pool, at[found]), step == count[address] - 1


def _places_of(pool: FramePool, at: Int64s) -> Int64s:
    """Return the source positions of frames of the pool: file index and line as one number."""
    numbers = np.array(pool.line_files, np.int64)[at]
    files = np.array(pool.file_numbers, np.int64)[numbers]
    lines = np.array(pool.lines, np.int64)[at]
    return files << _LINE_BITS | lines


def _by_address(weights: NodeWeights, weight: Int64s) -> Int64s:
    """Sum the nodes' weights by address id."""
    trie = weights.trie
    sums = np.zeros(trie.n_addresses, np.int64)
    real = trie.address >= 0
    np.add.at(sums, trie.address[real], weight[real])
    return sums


def _nodes_at(weights: NodeWeights, address: Int64s) -> tuple[Int64s, Int64s]:
    """Find the nodes with weight that have one of some addresses (ascending, repeats allowed).

    Return pairs in two columns: a node, and the row of ``address`` that it has.
    """
    return _nodes_where(weights, weights.trie.address.astype(np.int64), address)


def _lost(
    pool: FramePool, weights: NodeWeights, function_ids: Sequence[int]
) -> tuple[Int64s, Int64s]:
    """Find where a function left no frame between a node with weight and its caller.

    Return pairs in two columns: the node, and the source position of the function.
    """
    count = np.array(pool.lost_count, np.int64)
    which = np.repeat(np.arange(len(count)), count)
    step = np.arange(len(which)) - (np.cumsum(count) - count)[which]
    at = np.array(pool.lost_first, np.int64)[which] + step
    found = np.isin(np.array(pool.functions)[at], np.array(function_ids, np.int64))
    place = _places_of(pool, at[found])
    if not len(place):
        return place, place
    trie = weights.trie
    address = trie.address.astype(np.int64)
    # The parent of the root is -1, so its ``above`` is meaningless; its own address excludes it.
    above = address[trie.parent]
    pair = np.where((above >= 0) & (address >= 0), above << 32 | address, -1)
    nodes, row = _nodes_where(weights, pair, np.array(pool.lost_pairs, np.int64)[which[found]])
    return nodes, place[row]


def _nodes_where(weights: NodeWeights, of_node: Int64s, wanted: Int64s) -> tuple[Int64s, Int64s]:
    """Find the nodes with weight that have one of some values (>= 0, ascending, repeats allowed).

    Return pairs in two columns: a node, and the row of ``wanted`` that it has.
    """
    first = np.searchsorted(wanted, of_node, side="left")
    count = np.searchsorted(wanted, of_node, side="right") - first
    count[weights.total_ns == 0] = 0
    nodes = np.repeat(np.arange(len(of_node)), count)
    step = np.arange(len(nodes)) - np.repeat(np.cumsum(count) - count, count)
    return nodes, np.repeat(first, count) + step
