"""Compute the share of each module in a profile, and how much of it has names and lines."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..model import FrameKind
from ..profile.store import Profile
from ..symbols.names.table import SymbolTable
from .node_weights import NodeWeights


@dataclass(frozen=True)
class ModuleShare:
    """One module's share of a profile. Weights are nanoseconds of the requested clock."""

    module_id: int  # 0 for code outside any file
    self_ns: int  # of stacks that end in it, or in a system call that it made
    total_ns: int  # of stacks that contain it, each counted once
    named_ns: int  # the part of self_ns where the function has a name
    lined_ns: int  # the part of self_ns where the line is known


def module_shares(profile: Profile, table: SymbolTable, weights: NodeWeights) -> list[ModuleShare]:
    """Return the shares of all modules that occur in stacks with weight, heaviest first.

    The sum of their ``self_ns`` is the weight of all stacks with at least one known frame.
    """
    trie = weights.trie
    nodes = np.flatnonzero((trie.address >= 0) & (weights.total_ns > 0))
    if not len(nodes):
        return []
    address = trie.address[nodes]
    module_ids, _ = profile.addresses()
    modules, key = np.unique(module_ids[address], return_inverse=True)
    pool = table.pool(trie.n_addresses)
    innermost = np.array(pool.first) + np.array(pool.count) - 1
    is_named = np.array([f.kind is not FrameKind.UNKNOWN for f in table.functions], bool)
    named = is_named[np.array(pool.functions)[innermost]][address]
    lined = (np.array(pool.lines)[innermost] > 0)[address]
    ends_here = (weights.self_ns + weights.in_call_ns)[nodes]
    sums = np.zeros((3, len(modules)), np.int64)
    for row, wanted in zip(sums, (np.ones(len(nodes), bool), named, lined), strict=True):
        np.add.at(row, key[wanted], ends_here[wanted])
    totals = weights.sum_outermost(key, nodes, len(modules))
    shares = [
        ModuleShare(*each)
        for each in zip(
            modules.tolist(),
            sums[0].tolist(),
            totals.tolist(),
            sums[1].tolist(),
            sums[2].tolist(),
            strict=True,
        )
    ]
    return sorted(shares, key=lambda share: (-share.self_ns, -share.total_ns, share.module_id))
