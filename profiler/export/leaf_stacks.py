"""Give the stack of each leaf, for formats that list what a thread did in order of time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property

from ..model import MANAGED, MARKS, NO_MODULE, Clock, FrameKind, Function, Thread
from ..recording.profile.leaves import LeafWeights
from ..recording.profile.stacks import NO_ADDRESS, ROOT, TRUNCATED
from ..tree.calltree import CallTree
from ..tree.own_frames import SYNTHETIC, syscall_function
from ..tree.shown_frames import Call, StackReader
from .request import ExportRequest

_ADDR_LIMIT = 1 << 64

OF_ALL_CLOCKS = (Clock.CPU, Clock.WALL)  # off-CPU time is part of the wall clock's

FrameKey = tuple[int, int]
"""A function's id, and the line; 0 unless the lines of a function are separate frames."""
NO_FUNCTION: FrameKey = (-1, 0)
"""Stands for the frames of a stack of which no function is left, in formats that need one."""


class LeafStacks:
    """The stacks of leaves, as they are shown.

    Made after the profile's timelines, so that its trie has all nodes of these.

    Args:
        request: has the profile.
        clocks: whose leaves they are; None for that of the request.
    """

    def __init__(self, request: ExportRequest, clocks: Sequence[Clock] | None = None) -> None:
        self._request = request
        self._profile, self._names = request.profile, request.names
        self._stacks = StackReader(request.profile, request.names, request.selection.frames)
        self._modules = request.profile.modules  # all those of these stacks
        self._kernel = request.names.kernel()
        self._has_lines = request.by_line
        self._shaped = None
        if request.shaping is not None:
            trees = [_plain_tree(request, clock) for clock in clocks or [request.selection.clock]]
            self._shaped = request.shaping.stacks(trees)

    @property
    def is_shaped(self) -> bool:
        """True if some stacks may not count, or look other than they are."""
        return self._shaped is not None

    def keys(self, node: int, sysno: int) -> list[FrameKey] | None:
        """Return the frames of a leaf's stack, root first; None: it does not count."""
        found = self.addressed_keys(node, sysno)
        return None if found is None else [key for _, key in found]

    def addressed_keys(self, node: int, sysno: int) -> list[tuple[int, FrameKey]] | None:
        """Return the same with the id of each frame's address; with a shape, frames have none."""
        calls = self.calls(node, sysno)
        if calls is None:
            return None
        places = ((address, place) for address, places in calls for place in places)
        return [
            (address, (function, self._line(function, line)))
            for address, (function, line, _) in places
        ]

    def calls(self, node: int, sysno: int) -> list[Call] | None:
        """Return the frames of a leaf's stack by address, root first; None: it does not count.

        With a shape, frames have no address, and no line.
        """
        found: list[Call] = []
        if sysno < 0 and node > TRUNCATED:
            sysno = self._kernel.get(self._stacks.address(node), -1)
        root = self._stacks.root(node)
        if root != ROOT:
            found.append(_own(self._names.function_id(SYNTHETIC[root])))
        found += self._stacks.calls(node, or_innermost=sysno < 0)
        if sysno >= 0:
            found.append(_own(self._names.function_id(syscall_function(sysno))))
        if self._shaped is None:
            return found
        shaped = self._shaped([place[0] for _, places in found for place in places])
        return None if shaped is None else [_own(function) for function in shaped]

    def function(self, key: FrameKey) -> Function:
        """Return the function of a frame."""
        return self._names.functions[key[0]]

    def place(self, key: FrameKey) -> tuple[str, int]:
        """Return file and line of a frame; "" and 0 if they are unknown."""
        function_id, own_line = key
        file, line = self._places.get(function_id, ("", 0))
        return file or self._names.functions[function_id].file, own_line or line

    @cached_property
    def _places(self) -> dict[int, tuple[str, int]]:
        return _heaviest_places(_plain_tree(self._request, self._request.selection.clock))

    def code(self, address: int) -> tuple[int, int]:
        """Return the module id, 0 for none, and the runtime_addr of an address id.

        The runtime_addr is 0 where there is none, or where it is not known.
        """
        if address == NO_ADDRESS:
            return NO_MODULE, 0
        raw = self._profile.locate(address)[0]
        if raw.module_id == MANAGED or raw in MARKS:
            return NO_MODULE, 0
        if raw.module_id == NO_MODULE:
            return NO_MODULE, raw.addr
        module = self._modules.get(raw.module_id)
        if module is None:
            return NO_MODULE, 0
        return raw.module_id, (raw.addr + module.load_bias) % _ADDR_LIMIT

    def _line(self, function_id: int, line: int) -> int:
        is_python = self._names.functions[function_id].kind is FrameKind.PYTHON
        return line if self._has_lines and is_python else 0


def _own(function: int) -> Call:
    return NO_ADDRESS, ((function, 0, 0),)


def leaves_of(request: ExportRequest, thread_ids: frozenset[int] | None) -> LeafWeights:
    """Return the leaves that count of some threads, None for all."""
    clock, holding = request.selection.clock, request.selection.frames.only_gil
    if request.counts_samples:
        return request.profile.leaf_samples(clock, thread_ids, holding=holding)
    return request.profile.leaf_weights(clock, thread_ids, *request.between_ns, holding=holding)


def threads_with_weight(
    request: ExportRequest, leaves: LeafWeights, counts: Callable[[int, int], bool]
) -> tuple[list[Thread], list[int]]:
    """Return the threads that have weight, and their weights.

    Args:
        request: has the profile.
        leaves: of the profile.
        counts: tells of a leaf, a node and a system call, whether it counts.
    """
    weights: dict[int, int] = {}
    columns = (leaves.thread_id, leaves.node, leaves.sysno, leaves.weight)
    for thread_id, node, sysno, weight in zip(*(each.tolist() for each in columns), strict=True):
        if counts(node, sysno):
            weights[thread_id] = weights.get(thread_id, 0) + weight
    threads = [thread for i, thread in request.profile.threads.items() if weights.get(i)]
    return threads, [weights[thread.thread_id] for thread in threads]


def _plain_tree(request: ExportRequest, clock: Clock) -> CallTree:
    plain = replace(request.without_roots(), unit="time", by_line=False, shaping=None)
    return plain.tree(clock)


def _heaviest_places(tree: CallTree) -> dict[int, tuple[str, int]]:
    """Return for each function id the file and line of its heaviest node.

    The file is "" for the function's own file. Frames are merged by function, so there is one line
    for each, unless the lines of Python functions are to be separated.
    """
    columns = (tree.total_ns, tree.function, tree.line, tree.line_file)
    rows: list[tuple[int, int, int, int]]
    rows = sorted(zip(*(column.tolist() for column in columns), strict=True))
    return {function: (tree.line_files[file], line) for _, function, line, file in rows if line}
