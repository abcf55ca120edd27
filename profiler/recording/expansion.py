"""Count the frames that the stacks of a file have once they are named. Pure.

An address may have any number of frames, and each stack that goes through it has all of them. So a
small file can ask for more than fits into memory.
"""

from __future__ import annotations

import numpy as np

from .names.table import SymbolTable
from .profile.store import Profile

# Six for each of the 700,000 nodes that a profile holds; programs have one to three. A view takes
# some 450 bytes for each.
MAX_FRAMES = 1 << 22


def n_frames(profile: Profile, table: SymbolTable) -> int:
    """Return how many frames all nodes of the trie have together."""
    trie = profile.trie()
    pool = table.pool(trie.n_addresses)
    of_address = np.array(pool.count, np.int64)
    node = np.flatnonzero(trie.address >= 0)
    found = int(of_address[trie.address[node]].sum())
    if pool.lost_pairs:
        caller = trie.address[np.maximum(trie.parent[node], 0)].astype(np.int64)
        pairs = np.array(pool.lost_pairs, np.int64)
        of_node = caller << 32 | trie.address[node]
        at = np.minimum(np.searchsorted(pairs, of_node), len(pairs) - 1)
        found += int(np.array(pool.lost_count, np.int64)[at][pairs[at] == of_node].sum())
    return found
