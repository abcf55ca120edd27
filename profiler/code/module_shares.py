"""Compute the share of each module in a profile, and how much of it has names and lines."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..model import FrameKind
from ..recording.names.table import SymbolTable
from ..recording.profile.store import Profile
from .node_weights import NodeWeights


@dataclass(frozen=True)
class ModuleShare:
    """One module's share of a profile. Weights are nanoseconds of the requested clock."""

    module_id: int  # 0 for code outside any file, ``MANAGED`` for Python functions
    self_ns: int  # of stacks that end in it, or in a system call that it made
    total_ns: int  # of stacks that contain it, each counted once
    named_ns: int  # the part of self_ns where the function has a name
    lined_ns: int  # the part of self_ns where the line is known


def module_shares(profile: Profile, table: SymbolTable, weights: NodeWeights) -> list[ModuleShare]:
    """Return the shares of all modules that occur in stacks with weight, heaviest first.

    The sum of their ``self_ns`` is the weight of all stacks with at least one known frame.
    """
    trie, pool = weights.trie, weights.pool
    count = np.array(pool.count)
    has_frame = np.append(count > 0, False)[trie.address]
    nodes = np.flatnonzero(has_frame & (weights.total_ns > 0))
    if not len(nodes):
        return []
    address = trie.address[nodes]
    module_ids = profile.addresses()[0][address % weights.profile_addresses]
    modules, key = np.unique(module_ids, return_inverse=True)
    innermost = np.maximum(np.array(pool.first) + count - 1, 0)
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
