"""Show the garbage collector as a frame, ``[garbage collection]``, below what made it run.

It is the caller of the interpreter's function that collects, where that has a name. Where the
interpreter has no names, marks on stacks say that an interpreter collects. They do not say where,
nor in which thread: a finalizer may run Python functions, or let another thread run. But an address
in the interpreter that occurs in no stack of a thread that holds the lock and does not collect is
one of the collector, or leads to it alone. The first of those below a Python function is the place.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from ..recording.names.frame_pool import FramePool
from ..recording.names.table import COLLECTION, SymbolTable
from ..recording.profile.stacks import Trie
from ..recording.profile.store import Profile
from ..symbols.interpreters.python.collector import is_collector

Bools = npt.NDArray[np.bool_]


def with_collections(
    pool: FramePool,
    profile: Profile,
    table: SymbolTable,
    trie: Trie,
    in_interpreter: Bools,
    is_managed: Bools,
) -> tuple[FramePool, Sequence[int]]:
    """Add the frame to the addresses at which garbage is collected.

    Args:
        pool: the frames of all addresses of the trie.
        profile: the recording.
        table: the names.
        trie: of the profile.
        in_interpreter: whether each address is in the file of an interpreter, beside its loop.
        is_managed: whether each address is a Python function.

    Returns:
        The pool, and the addresses whose first frame it is now.
    """
    found, before = _by_name(pool, table, in_interpreter)
    if not len(found):
        found = _by_marks(profile, trie, in_interpreter, is_managed)
        before = np.zeros(len(found), np.int64)
    if not len(found):
        return pool, ()
    collection = table.function_id(COLLECTION)
    functions, lines, files = pool.functions[:], pool.lines[:], pool.line_files[:]
    new_first, new_count = pool.first[:], pool.count[:]
    for address, skipped in zip(found.tolist(), before.tolist(), strict=True):
        start, end = pool.first[address], pool.first[address] + pool.count[address]
        at = start + skipped
        new_first[address] = len(functions)
        new_count[address] += 1
        for column, own, put in (
            (functions, pool.functions, collection),
            (lines, pool.lines, 0),
            (files, pool.line_files, 0),
        ):
            column += own[start:at] + array("i", [put]) + own[at:end]
    pool = replace(
        pool,
        first=new_first,
        count=new_count,
        functions=functions,
        lines=lines,
        line_files=files,
    )
    return pool, found[before == 0].tolist()


def _by_name(
    pool: FramePool, table: SymbolTable, in_interpreter: Bools
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return the addresses in the function that collects, and how many of their frames call it."""
    none = np.empty(0, np.int64)
    is_collecting = np.frombuffer(table.labels(is_collector), np.bool_)
    if not is_collecting.any():
        return none, none
    hit = is_collecting[np.frombuffer(pool.functions, np.int32)]
    sums = np.concatenate(([0], np.cumsum(hit)))
    first, count = np.array(pool.first), np.array(pool.count)
    found = np.flatnonzero((sums[first + count] > sums[first]) & in_interpreter)
    before = [int(hit[first[at] : first[at] + count[at]].argmax()) for at in found.tolist()]
    return found, np.array(before, np.int64)


def _by_marks(
    profile: Profile, trie: Trie, in_interpreter: Bools, is_managed: Bools
) -> npt.NDArray[np.int64]:
    """Return the addresses at which garbage collections begin; see the module docstring."""
    n = len(trie.parent)
    leaf, collects = profile.collections()
    leaf, collects = leaf[leaf < n], collects[leaf < n]
    if not collects.any():
        return np.empty(0, np.int64)
    order = np.argsort(trie.depth, kind="stable")
    levels = np.split(order, np.cumsum(np.bincount(trie.depth))[:-1])
    parent, address = trie.parent, trie.address

    def above(nodes: npt.NDArray[np.int32], stops: Bools) -> Bools:
        """Mark nodes and their callers, up to those that stop it."""
        found = np.zeros(n, bool)
        found[nodes] = True
        for level in reversed(levels[1:]):
            found[parent[level[found[level] & ~stops[level]]]] = True
        return found

    def below(marked: Bools) -> Bools:
        """Mark the nodes that have a marked caller."""
        found = np.zeros(n, bool)
        for level in levels[1:]:
            found[level] = found[parent[level]] | marked[parent[level]]
        return found

    nothing = np.zeros(n, bool)
    plain = above(leaf[~collects], nothing)
    is_plain = np.zeros(trie.n_addresses + 1, bool)  # the last one is that of synthetic nodes
    is_plain[address[plain]] = True
    may_collect = np.append(in_interpreter & ~is_managed, False) & ~is_plain
    in_python = below(np.append(is_managed, False)[address])
    is_own = above(leaf[collects], nothing) & may_collect[address] & in_python
    first = np.zeros(trie.n_addresses + 1, bool)
    first[address[is_own & ~below(is_own)]] = True
    # A rare caller of the collector may have been seen only then: the last of the first counts.
    stops = is_own & first[address]
    found = np.unique(address[stops & above(leaf[collects], stops)])
    return found.astype(np.int64)
