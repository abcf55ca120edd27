"""Store the stacks of a profile: their addresses, a trie of addresses, the stack of each trace id.

A node of the trie is an address below its caller; its parent always has a lower number. Stacks
whose root was not reached are below a node of their own, so that they can be recognised:

    0 root ─┬─ 1 [unattributed]       CPU time whose stack was never seen
            ├─ 2 [stack table full]   time whose stack found no room
            ├─ 3 [truncated] ──────── frames of stacks that lack their root
            └─── frames of complete stacks

A *stack* is a node, the unwinder's verdicts, and the module at fault. The agent may send the same
stack again under a new trace id. Both ids then have the same stack.

Not thread-safe; ``Profile`` holds the lock.
"""

from __future__ import annotations

import secrets
from array import array
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ...model import ManagedVerdict, RawFrame, Verdict
from ...wire.abi import (
    FRAME_KIND_MANAGED,
    FRAME_KIND_MODULE,
    FRAME_KIND_SHIFT,
    FRAME_MODULE_SHIFT,
    MARK_LOCK,
    MARK_LOCK_AWAITED,
    MARK_LOCK_HELD,
)
from ...wire.decoder import ProtocolError
from ...wire.events import Trace, raw_frame
from .budget import ADDRESS_BYTES, NODE_BYTES, STACK_BYTES, TRACE_BYTES, Budget
from .stack_columns import Mark, StackColumns, check

ROOT = 0
UNATTRIBUTED = 1
TABLE_FULL = 2
TRUNCATED = 3  # the last synthetic one
# The address id of synthetic nodes.
NO_ADDRESS = -1

# The stack of trace id 0, and of ids that we have not received.
STACK_UNATTRIBUTED = 0
# The stack of ids for which the budget did not suffice.
STACK_FULL = 1

# Trace ids count up from 1. An id this far above the highest one so far means damaged data; we must
# not allocate a table for it.
MAX_TRACE_ID_GAP = 1 << 22
# In a build without a lock, all threads seem to have released it.
_USES_LOCK = (MARK_LOCK_HELD, MARK_LOCK_AWAITED)
# Odd and random: the target chooses addresses, and must not know which share a slot.
_MIX_PARENT, _MIX_ADDRESS = (secrets.randbits(32) | 1 << 31 | 1 for _ in range(2))
_MIX_FRAME = np.uint64(secrets.randbits(64) | 1)


@dataclass(frozen=True)
class Trie:
    """A copy of the trie in columns, one row per node, int32. Node 0 is the root."""

    parent: npt.NDArray[np.int32]  # -1 for the root, otherwise less than the node's own number
    address: npt.NDArray[np.int32]  # address id, NO_ADDRESS for the four synthetic nodes
    depth: npt.NDArray[np.int32]  # 0 for the root
    n_addresses: int


class Calls(NamedTuple):
    """Calls that occur in stacks, in columns: a caller's and a callee's address in one module."""

    module_id: npt.NDArray[np.int64]
    caller_id: npt.NDArray[np.int64]
    callee_id: npt.NDArray[np.int64]
    caller_addr: npt.NDArray[np.int64]  # file_addr: return address - 1, as in all callers' frames
    callee_addr: npt.NDArray[np.int64]


class News(NamedTuple):
    """The addresses, calls and leaves that were added after a mark."""

    addresses: list[tuple[int, RawFrame]]  # with their ids, ascending
    calls: Calls
    leaves: list[tuple[int, RawFrame]]  # addresses at which the stacks end, each once
    mark: Mark  # for the next request


class Stacks:
    """The stacks of a profile; see the module docstring.

    Args:
        budget: what they may take.
    """

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._is_full = False  # some trace found no room
        self._address_ids: dict[int, int] = {}  # by mixed frame
        self._addresses = array("Q")  # by address id, encoded as on the wire
        # A hash table with open addressing, 0 = free slot. A dict would need 100 bytes a node.
        self._node_slots = array("i", bytes(4 << 10))
        self._parent = array("i", (-1, ROOT, ROOT, ROOT))
        self._address = array("i", (NO_ADDRESS, NO_ADDRESS, NO_ADDRESS, NO_ADDRESS))
        self._depth = array("i", (0, 1, 1, 1))
        self._stack_ids: dict[int, int] = {}
        self._stack_node = array("i", (UNATTRIBUTED, TABLE_FULL))
        self._stack_verdict = array("B", (Verdict.NO_STACK, Verdict.NO_STACK))
        self._stack_managed = array("B", (ManagedVerdict.NONE, ManagedVerdict.NONE))
        self._stack_marks = array("B", (0, 0))
        self._stack_fault = array("i", (0, 0))
        self._stack_of_trace = np.full(1 << 12, -1, np.int32)
        self._stack_of_trace[0] = STACK_UNATTRIBUTED
        self._highest_trace_id = 0
        self._has_managed = False
        self._has_lock = False
        self._looked_at = 0  # addresses that ``has_managed`` has seen

    def add(self, trace: Trace) -> None:
        """Add a trace; afterwards :meth:`stacks_of` knows its id.

        If the budget does not suffice, its stack is ``STACK_FULL``.

        Raises:
            ProtocolError: the trace id is far too large.
        """
        trace_id = trace.trace_id
        if trace_id > self._highest_trace_id + MAX_TRACE_ID_GAP:
            raise ProtocolError(f"trace id {trace_id} follows {self._highest_trace_id}")
        self._highest_trace_id = max(self._highest_trace_id, trace_id)
        if trace_id >= len(self._stack_of_trace) and not self._grow_traces(trace_id):
            self._is_full = True
            return
        # A trace without frames is not complete, whatever its verdict. What stands for time without
        # a stack is no part of one.
        is_whole = trace.verdict.root_reached or trace.verdict is Verdict.NO_STACK
        whole = is_whole and len(trace.frames) > 0
        node = self._node(ROOT if whole else TRUNCATED, trace.frames)
        stack = STACK_FULL if node < 0 else self._stack(node, trace)
        self._has_lock = self._has_lock or trace.marks & MARK_LOCK in _USES_LOCK
        self._stack_of_trace[trace_id] = stack

    def _grow_traces(self, trace_id: int) -> bool:
        """Make room for a trace id; return False if the budget does not suffice."""
        length = trace_id + trace_id // 2
        if not self._budget.take(TRACE_BYTES * (length - len(self._stack_of_trace))):
            return False
        grown = np.full(length, -1, np.int32)
        grown[: len(self._stack_of_trace)] = self._stack_of_trace
        self._stack_of_trace = grown
        return True

    def _node(self, node: int, frames_leaf_first: npt.NDArray[np.uint64]) -> int:
        """Return the node of a stack, -1 if it is new and the budget may not suffice."""
        # A product modulo 2^64 with an odd number is as unique as the frame itself.
        frames = frames_leaf_first[::-1].tolist()
        mixed = (frames_leaf_first * _MIX_FRAME)[::-1].tolist()
        if not self._budget.has(len(frames) * (NODE_BYTES + ADDRESS_BYTES) + STACK_BYTES):
            return self._existing_node(node, mixed)
        n_nodes, n_addresses = len(self._parent), len(self._addresses)
        node = self._new_node(node, frames, mixed)
        self._budget.spend(
            NODE_BYTES * (len(self._parent) - n_nodes)
            + ADDRESS_BYTES * (len(self._addresses) - n_addresses)
        )
        return node

    def _existing_node(self, node: int, mixed_root_first: list[int]) -> int:
        mask = len(self._node_slots) - 1
        for mixed in mixed_root_first:
            address_id = self._address_ids.get(mixed)
            if address_id is None:
                return -1
            slot = _node_hash(node, address_id) & mask
            while child := self._node_slots[slot]:
                if self._parent[child] == node and self._address[child] == address_id:
                    break
                slot = slot + 1 & mask
            if not child:
                return -1
            node = child
        return node

    def _new_node(self, node: int, frames: list[int], mixed_frames: list[int]) -> int:
        if 2 * (len(self._parent) + len(frames)) > len(self._node_slots):
            self._grow_node_slots(2 * (len(self._parent) + len(frames)))
        address_ids, slots = self._address_ids, self._node_slots
        parents, addresses = self._parent, self._address
        mask = len(slots) - 1
        for encoded, mixed in zip(frames, mixed_frames, strict=True):
            address_id = address_ids.get(mixed)
            if address_id is None:
                address_id = address_ids[mixed] = len(self._addresses)
                self._addresses.append(encoded)
            slot = _node_hash(node, address_id) & mask
            child = slots[slot]
            while child and (parents[child] != node or addresses[child] != address_id):
                slot = slot + 1 & mask
                child = slots[slot]
            if not child:
                child = slots[slot] = len(parents)
                parents.append(node)
                addresses.append(address_id)
                self._depth.append(self._depth[node] + 1)
            node = child
        return node

    def _grow_node_slots(self, at_least: int) -> None:
        size = 1 << at_least.bit_length()
        slots = array("i", bytes(4 * size))
        for node in range(TRUNCATED + 1, len(self._parent)):
            slot = _node_hash(self._parent[node], self._address[node]) & (size - 1)
            while slots[slot]:
                slot = slot + 1 & (size - 1)
            slots[slot] = node
        self._node_slots = slots

    def _stack(self, node: int, trace: Trace) -> int:
        key = node << 27 | trace.marks << 24
        key |= trace.managed_verdict << 20 | trace.fault_module << 4 | trace.verdict
        stack = self._stack_ids.get(key)
        if stack is None:
            if not self._budget.take(STACK_BYTES):
                return STACK_FULL
            stack = self._stack_ids[key] = len(self._stack_node)
            self._stack_node.append(node)
            self._stack_verdict.append(trace.verdict)
            self._stack_managed.append(trace.managed_verdict)
            self._stack_marks.append(trace.marks)
            self._stack_fault.append(trace.fault_module)
        return stack

    def stacks_of(self, trace_ids: npt.NDArray[np.uint32]) -> npt.NDArray[np.int32]:
        """Return the stack of each trace id; the unattributed one for ids not received."""
        known = trace_ids < len(self._stack_of_trace)
        stacks = self._stack_of_trace[np.where(known, trace_ids, 0)]
        if self._is_full:
            stacks[~known] = STACK_FULL
        return np.where(stacks < 0, np.int32(STACK_UNATTRIBUTED), stacks)

    @property
    def n_addresses(self) -> int:
        """The number of distinct addresses; their ids are 0 … n - 1."""
        return len(self._addresses)

    @property
    def has_managed(self) -> bool:
        """True if an address is a function of an interpreted program."""
        if not self._has_managed and self._looked_at < len(self._addresses):
            new = np.array(self._addresses[self._looked_at :], np.uint64)
            self._looked_at = len(self._addresses)
            self._has_managed = FRAME_KIND_MANAGED in new >> np.uint64(FRAME_KIND_SHIFT)
        return self._has_managed

    @property
    def has_lock(self) -> bool:
        """True if a thread held an interpreter's lock, or waited for it."""
        return self._has_lock

    def raw_frame(self, address_id: int) -> RawFrame:
        """Return the frame of an address id."""
        return raw_frame(self._addresses[address_id])

    def news(self, since: Mark) -> News:
        """Return the addresses, calls and leaves that were added after ``since``."""
        return News(
            [(i, self.raw_frame(i)) for i in range(since.n_addresses, len(self._addresses))],
            self.calls_since(since.n_nodes),
            [(i, self.raw_frame(i)) for i in self._leaf_addresses_since(since.n_stacks)],
            self.mark,
        )

    @property
    def mark(self) -> Mark:
        """The position behind all that there is now."""
        return Mark(len(self._addresses), len(self._parent), len(self._stack_node))

    def columns_since(self, since: Mark) -> StackColumns:
        """Return the rows that were added after ``since``; copies."""
        a, n, s = since
        return StackColumns(
            addresses=np.array(self._addresses[a:], np.uint64),
            parent=np.array(self._parent[n:], np.int32),
            address=np.array(self._address[n:], np.int32),
            depth=np.array(self._depth[n:], np.int32),
            node=np.array(self._stack_node[s:], np.int32),
            verdict=np.array(self._stack_verdict[s:], np.uint8),
            managed=np.array(self._stack_managed[s:], np.uint8),
            marks=np.array(self._stack_marks[s:], np.uint8),
            fault=np.array(self._stack_fault[s:], np.int32),
        )

    def extend(self, rows: StackColumns) -> None:
        """Add rows that ``columns_since`` has returned. Traces cannot be added afterwards.

        Raises:
            ValueError: they do not fit to those that there are, or the budget does not suffice.
        """
        check(rows, self.mark, np.frombuffer(self._depth, np.int32).copy())
        n_bytes = len(rows.addresses) * ADDRESS_BYTES + len(rows.parent) * NODE_BYTES
        if not self._budget.take(n_bytes + len(rows.node) * STACK_BYTES):
            raise ValueError("it has more stacks than fit into memory")
        self._addresses.frombytes(rows.addresses.tobytes())
        for column, more in (
            (self._parent, rows.parent),
            (self._address, rows.address),
            (self._depth, rows.depth),
            (self._stack_node, rows.node),
            (self._stack_verdict, rows.verdict),
            (self._stack_managed, rows.managed),
            (self._stack_marks, rows.marks),
            (self._stack_fault, rows.fault),
        ):
            column.frombytes(more.tobytes())
        self._has_lock |= bool(np.isin(rows.marks & MARK_LOCK, _USES_LOCK).any())

    def _leaf_addresses_since(self, n: int) -> list[int]:
        """Return the ids of the addresses at which the stacks from number ``n`` on end."""
        node = np.array(self._stack_node[n:], np.int64)
        address = np.frombuffer(self._address, np.int32)[node]
        ids: list[int] = np.unique(address[address >= 0]).tolist()
        return ids

    def calls_since(self, n: int) -> Calls:
        """Return the calls of the nodes from number ``n`` on, each once."""
        n = max(n, TRUNCATED + 1)
        address = np.array(self._address[n:], np.int64)
        caller = np.frombuffer(self._address, np.int32)[np.array(self._parent[n:], np.int64)]
        pairs = np.unique((caller.astype(np.int64) << 32 | address)[caller >= 0])
        caller_id, callee_id = pairs >> 32, pairs & 0xFFFFFFFF
        encoded = np.frombuffer(self._addresses, np.uint64)
        calling, called = encoded[caller_id].astype(np.int64), encoded[callee_id].astype(np.int64)
        # The bits above the module are the frame's kind, so equal numbers also mean equal kinds.
        module_id = calling >> FRAME_MODULE_SHIFT
        is_within = (module_id == called >> FRAME_MODULE_SHIFT) & (
            calling >> FRAME_KIND_SHIFT == FRAME_KIND_MODULE
        )
        low = (1 << FRAME_MODULE_SHIFT) - 1
        columns = module_id, caller_id, callee_id, calling & low, called & low
        return Calls(*(column[is_within] for column in columns))

    def encoded_addresses(self) -> npt.NDArray[np.uint64]:
        """Return the frames of all address ids, encoded as on the wire; a copy."""
        return np.array(self._addresses, np.uint64)

    def trie(self) -> Trie:
        """Return a copy of the current trie."""
        return Trie(
            np.array(self._parent, np.int32),
            np.array(self._address, np.int32),
            np.array(self._depth, np.int32),
            len(self._addresses),
        )

    def leaf_frames(self, stacks: npt.NDArray[np.int32], count: int) -> npt.NDArray[np.int32]:
        """Return the address ids at the leaf ends of some stacks.

        Returns:
            A row of ``count`` for each, leaf first, ``NO_ADDRESS`` where there is none.
        """
        parent, address = (np.frombuffer(each, np.int32) for each in (self._parent, self._address))
        node = np.array(self._stack_node, np.int32)[stacks]
        frames = np.full((len(stacks), count), NO_ADDRESS, np.int32)
        for depth in range(count):
            frames[:, depth] = address[node]
            node = np.maximum(parent[node], ROOT)
        return frames

    def stack_nodes(self) -> npt.NDArray[np.int32]:
        """Return the leaf node of each stack."""
        return np.array(self._stack_node, np.int32)

    def stack_verdicts(self) -> npt.NDArray[np.uint8]:
        """Return the verdict of each stack."""
        return np.array(self._stack_verdict, np.uint8)

    def stack_managed(self) -> npt.NDArray[np.uint8]:
        """Return the verdict on the interpreted frames of each stack."""
        return np.array(self._stack_managed, np.uint8)

    def stack_marks(self) -> npt.NDArray[np.uint8]:
        """Return the marks of each stack (``abi.h``: ``enum mark``)."""
        return np.array(self._stack_marks, np.uint8)

    def stack_faults(self) -> npt.NDArray[np.int32]:
        """Return the module at fault for each truncated stack; 0 if there is none."""
        return np.array(self._stack_fault, np.int32)


def _node_hash(parent: int, address_id: int) -> int:
    mixed = parent * _MIX_PARENT + address_id * _MIX_ADDRESS
    return mixed ^ mixed >> 17
