"""Apply a frame filter to a profile's addresses: the frames that are left at each of them.

Whether an address shows its frames depends on the stack: with Python frames or without. So each
address has two ids here: ``a`` in stacks with a Python frame, ``n_addresses + a`` in others. An
address may have no frame left; what happens there then happens in its caller.

Without anything to hide, all stacks count as those with a Python frame, and the pool is the table's
own: a recording of a native program costs nothing more.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from ..model import MANAGED, Frame, FrameKind
from ..recording.names.frame_pool import FramePool
from ..recording.names.table import SymbolTable
from ..recording.profile.stacks import NO_ADDRESS, ROOT, TRUNCATED, Trie
from ..recording.profile.store import Profile
from .collector_frames import with_collections
from .frame_filter import FrameFilter, Language, are_native, traits
from .own_frames import (
    NO_JAVA_FUNCTION,
    NO_JAVASCRIPT_FUNCTION,
    NO_PYTHON_FUNCTION,
    NO_RUBY_FUNCTION,
    SYNTHETIC,
)

Place = tuple[int, int, int]
"""A function id, a line, and the index of the line's file."""

Call = tuple[int, tuple[Place, ...]]
"""An address id, and its frames, root first: a function, and those that are inlined there."""

Bools = npt.NDArray[np.bool_]
Int32s = npt.NDArray[np.int32]

# Of several languages, the first one.
_OTHERS = {
    FrameKind.PYTHON: NO_PYTHON_FUNCTION,
    FrameKind.JAVA: NO_JAVA_FUNCTION,
    FrameKind.JAVASCRIPT: NO_JAVASCRIPT_FUNCTION,
    FrameKind.RUBY: NO_RUBY_FUNCTION,
}


@dataclass(frozen=True, eq=False)
class ShownFrames:
    """The frames left by a filter; see the module docstring."""

    pool: FramePool  # of both ids of each address, if there are two
    whole: FramePool  # of all addresses, unfiltered
    has_others: bool  # stacks without a Python frame have ids of their own
    is_other: Bools  # [nodes of the trie]: its stack has no Python frame, if ``has_others``
    other_root: int  # function id of the frame at the root of stacks without Python; -1 for none

    @property
    def n_addresses(self) -> int:
        """The number of addresses; the second id of an address is this much higher."""
        return len(self.whole.count)


def shown_frames(
    profile: Profile, table: SymbolTable, trie: Trie, frames: FrameFilter
) -> ShownFrames:
    """Apply a filter to the addresses of a trie.

    Args:
        profile: the recording.
        table: the names.
        trie: of the profile, not older than what is to be shown.
        frames: the filter.
    """
    n = trie.n_addresses
    whole = table.pool(n)
    module_ids = profile.addresses()[0][:n]
    is_eval = profile.eval_addresses()[:n]
    is_managed = module_ids == MANAGED
    no_node = np.zeros(len(trie.parent), bool)
    is_python_only = frames.language is Language.PYTHON
    if not is_python_only and not is_managed.any():
        return ShownFrames(whole, whole, False, no_node, -1)
    in_interpreter = np.isin(module_ids, np.unique(module_ids[is_eval])) & ~is_eval
    whole, collections = with_collections(whole, profile, table, trie, in_interpreter, is_managed)
    of_function = np.frombuffer(table.labels(traits), np.uint8)
    innermost = np.array(whole.functions)[np.array(whole.first) + np.array(whole.count) - 1]
    hides_function = frames.hidden_functions(of_function)
    hides_address = frames.hidden_addresses(module_ids, is_eval, of_function[innermost])
    # A hidden address of the collector keeps its first frame, that of the garbage collection.
    for address in collections:
        if hides_address[address]:
            hides_address[address], whole.count[address] = False, 1
    if not hides_function.any() and not hides_address.any():
        return ShownFrames(whole, whole, False, no_node, -1)
    # What the names say of a Python function may still be to come.
    keeps_address = is_managed & ~hides_address & ~are_native(of_function[innermost])
    if frames.language is Language.NATIVE:
        pool = _without(whole, hides_function, hides_address, keeps_address)
        return ShownFrames(pool, whole, False, no_node, -1)
    nothing = np.zeros(n, bool)
    pool = _joined(
        _without(whole, hides_function, hides_address, keeps_address),
        _without(whole, hides_function, ~nothing, nothing) if is_python_only else whole,
        n,
    )
    kinds = {function.kind for function in table.functions}
    other = next(
        (function for kind, function in _OTHERS.items() if kind in kinds), NO_PYTHON_FUNCTION
    )
    other_root = table.function_id(other) if is_python_only else -1
    return ShownFrames(pool, whole, True, ~_with_python(trie, is_managed), other_root)


def _with_python(trie: Trie, is_managed: Bools) -> Bools:
    """Return whether each node's stack, from the root to the node, has a Python frame.

    Stacks without any address count as such: nothing in them is hidden.
    """
    address = trie.address
    found = np.where(address >= 0, is_managed[address], False) if len(is_managed) else address >= 0
    above = np.maximum(trie.parent, 0)
    # Each round looks twice as far up.
    for _ in range(int(trie.depth.max(initial=0)).bit_length()):
        found = found | found[above]
        above = above[above]
    found[: TRUNCATED + 1] = True
    return found


def _without(
    pool: FramePool, hides_function: Bools, hides_address: Bools, keeps_address: Bools
) -> FramePool:
    """Return a pool without hidden functions, except at addresses that keep all their frames."""
    functions = np.frombuffer(pool.functions, np.int32)
    kept = ~hides_function[functions]
    before = np.zeros(len(kept) + 1, np.int64)  # kept frames before each one
    np.cumsum(kept, out=before[1:])
    first, count = np.array(pool.first, np.int64), np.array(pool.count, np.int64)
    new_first, new_count = before[first], before[first + count] - before[first]
    n_kept = int(before[-1])
    # All frames once more behind the kept ones, for the addresses that keep theirs.
    new_first = np.where(keeps_address, n_kept + first, new_first)
    new_count = np.where(hides_address, 0, np.where(keeps_address, count, new_count))
    lost_first = np.array(pool.lost_first, np.int64)
    lost_end = lost_first + np.array(pool.lost_count, np.int64)

    def column(values: array[int]) -> array[int]:
        every = np.frombuffer(values, np.int32)
        return _ints(np.concatenate((every[kept], every)))

    return replace(
        pool,
        first=_ints(new_first),
        count=_ints(new_count),
        functions=column(pool.functions),
        lines=column(pool.lines),
        line_files=column(pool.line_files),
        lost_first=_ints(before[lost_first]),
        lost_count=_ints(before[lost_end] - before[lost_first]),
    )


def _joined(own: FramePool, other: FramePool, n: int) -> FramePool:
    """Return one pool of two; the addresses of the second one are higher by ``n``."""
    size = len(own.functions)
    shift = n << 32 | n

    def moved(values: array[int]) -> array[int]:
        return _ints(np.array(values, np.int64) + size)

    return FramePool(
        first=own.first + moved(other.first),
        count=own.count + other.count,
        functions=own.functions + other.functions,
        lines=own.lines + other.lines,
        line_files=own.line_files + other.line_files,
        file_numbers=own.file_numbers,
        lost_pairs=own.lost_pairs
        + array("q", (np.array(other.lost_pairs, np.int64) + shift).tobytes()),
        lost_first=own.lost_first + moved(other.lost_first),
        lost_count=own.lost_count + other.lost_count,
    )


def _ints(values: npt.NDArray[np.integer]) -> array[int]:
    return array("i", values.astype(np.int32).tobytes())


class StackReader:
    """Reads single stacks through a filter, for what is shown stack by stack.

    Args:
        profile: the recording.
        table: the names.
        frames: the filter.
    """

    def __init__(self, profile: Profile, table: SymbolTable, frames: FrameFilter) -> None:
        trie = profile.trie()
        self._table = table
        self._shown = shown_frames(profile, table, trie, frames)
        self._parent, self._address = trie.parent.tolist(), trie.address.tolist()

    def address(self, node: int) -> int:
        """Return the address id of a node; ``NO_ADDRESS`` for a synthetic one."""
        return int(self._address[node])

    def root(self, node: int) -> int:
        """Return the synthetic node below which a node is: ``ROOT``, if its stack is complete."""
        while node > TRUNCATED:
            node = self._parent[node]
        return node

    def places(self, node: int, *, or_innermost: bool = True) -> list[Place]:
        """Return the shown frames of the stack that ends in a node, root first.

        Args:
            node: of the trie.
            or_innermost: of a stack without any shown frame, return the innermost one.
        """
        calls = self.calls(node, or_innermost=or_innermost)
        return [place for _, places in calls for place in places]

    def calls(self, node: int, *, or_innermost: bool = True) -> list[Call]:
        """Return the same by address.

        Frames that a tail call has lost, and those that are added, have none (``NO_ADDRESS``).
        """
        shown = self._shown
        pool, lift = shown.pool, 0
        found: list[Call] = []
        if shown.has_others and shown.is_other[node]:
            lift = shown.n_addresses
            if shown.other_root >= 0:
                found.append((NO_ADDRESS, ((shown.other_root, 0, 0),)))
        leaf, addresses = node, []
        while node > TRUNCATED:
            addresses.append(self._address[node] + lift)
            node = self._parent[node]
        caller = NO_ADDRESS
        for address in reversed(addresses):
            if caller >= 0:
                lost = _slice(pool, pool.lost(caller, address))
                if lost:
                    found.append((NO_ADDRESS, lost))
            caller = address
            places = _slice(pool, _range(pool, address))
            if places:
                found.append((address - lift, places))
        if not found and or_innermost and leaf > TRUNCATED:
            address = self._address[leaf]
            found.append((address, _slice(shown.whole, _range(shown.whole, address))[-1:]))
        return found

    def path(self, node: int) -> list[int]:
        """Return the function ids of the shown frames of a stack, root first, as in a call tree."""
        root = self.root(node)
        above = [] if root == ROOT else [self._table.function_id(SYNTHETIC[root])]
        places = self.places(node, or_innermost=False)
        return above + [function for function, _, _ in places]

    def frames(self, node: int, *, or_innermost: bool = True) -> list[Frame]:
        """Return the shown frames of the stack that ends in a node, root first; see ``places``."""
        functions, files = self._table.functions, self._table.line_files
        tiers = self._table.line_tiers
        return [
            Frame(functions[function], line, files[file], tiers[file])
            for function, line, file in self.places(node, or_innermost=or_innermost)
        ]


def _range(pool: FramePool, address: int) -> slice:
    return slice(pool.first[address], pool.first[address] + pool.count[address])


def _slice(pool: FramePool, where: slice) -> tuple[Place, ...]:
    columns = pool.functions[where], pool.lines[where], pool.line_files[where]
    return tuple(zip(*columns, strict=True))
