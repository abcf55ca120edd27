"""Find the functions that were entered between two frames of a stack and ended in a tail call.

A function whose last action is a call may jump to the called function instead, which removes its
own frame. The stack then shows ``main → c`` although ``main`` called ``a``, and ``a`` ended in
``c``. The caller's call site shows that it called ``a``. If there is exactly one way from ``a`` to
``c`` by tail calls, the functions on it were entered, in this order. We never guess: if a function
on any way may jump to an unknown address, or may have tail calls that are not listed, we return
nothing. That is the rule of GDB's tail call frames, except that GDB does not check whether all tail
calls are listed.

:mod:`flametap.symbols.dwarf.callsites` makes the table from DWARF; it is kept on disk.

File: ``FTCALLS2``, then for each array of ``_ARRAYS`` its length as u64, then their elements, each
array aligned to 8 bytes.
"""

from __future__ import annotations

import struct
from array import array
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ...recording.names.inline_chains import LinesError

# The target of a call that leads to none of the file's functions.
UNKNOWN = -1  # through a pointer
ELSEWHERE = -2  # another module

_MAGIC = b"FTCALLS2"
# name → type. Functions are numbered. A goal is the set of possible targets of a call; goal 0 is
# unknown.
_ARRAYS: dict[str, str] = {
    "entries": "<u8",  # per function, its first address
    "is_complete": "u1",  # per function, whether all its tail calls are listed
    "range_starts": "<u8",  # the code of all functions, in order
    "range_ends": "<u8",
    "range_functions": "<u4",
    "return_addrs": "<u8",  # of calls, in order
    "call_goals": "<u4",
    "tail_functions": "<u4",  # per tail call, in order: the function that makes it …
    "tail_addrs": "<u8",  # … an address in the jump, or 0 …
    "tail_goals": "<u4",
    "goal_first": "<u4",  # index of each goal's first member; one more for the end
    "goal_members": "<i4",  # functions, or UNKNOWN or ELSEWHERE
}
_MAX_REACHED = 256  # functions; with more, we return nothing

Ints = npt.NDArray[np.int64]


class TailCall(NamedTuple):
    """A function that left no frame."""

    entry: int  # file_addr
    jump_addr: int  # file_addr in the jump by which it ended; 0 if there are several


class CallGraph:
    """The calls of one file.

    Args:
        payload: the result of :func:`pack`.

    Raises:
        LinesError: it has another format, or is damaged.
    """

    def __init__(self, payload: bytes) -> None:
        arrays = _unpack(payload)
        self._entries = arrays["entries"].astype(np.int64)
        self._is_complete = arrays["is_complete"]
        self._range_starts = arrays["range_starts"].astype(np.int64)
        self._range_ends = arrays["range_ends"].astype(np.int64)
        self._range_functions = arrays["range_functions"]
        self._return_addrs = arrays["return_addrs"].astype(np.int64)
        self._call_goals = arrays["call_goals"]
        self._tail_functions = arrays["tail_functions"]
        self._tail_addrs = arrays["tail_addrs"]
        self._tail_goals = arrays["tail_goals"]
        self._goal_first = arrays["goal_first"]
        self._goal_members = arrays["goal_members"]
        self._chains: dict[tuple[int, int], tuple[TailCall, ...]] = {}
        self._check()

    def lost(self, callers: Ints, callees: Ints) -> list[tuple[TailCall, ...]]:
        """Return the functions between each pair of frames, outermost first; mostly none.

        Args:
            callers: file_addr of each calling frame: its return address - 1.
            callees: file_addr of each frame that was called.
        """
        goals = self._goals_at(callers + 1)
        functions = self._functions_at(callees)
        found: list[tuple[TailCall, ...]] = [()] * len(goals)
        first = self._goal_members[self._goal_first[np.maximum(goals, 0)]]
        asked = (goals > 0) & (functions >= 0) & (first != functions)
        for i in np.flatnonzero(asked).tolist():
            key = (int(goals[i]), int(functions[i]))
            if key not in self._chains:
                self._chains[key] = self._chain(*key)
            found[i] = self._chains[key]
        return found

    def _goals_at(self, return_addrs: Ints) -> Ints:
        """Return the goal of the call before each address, -1 if there is no call."""
        if not len(self._return_addrs):
            return np.full(len(return_addrs), -1, np.int64)
        place = np.searchsorted(self._return_addrs, return_addrs)
        place = np.minimum(place, len(self._return_addrs) - 1)
        is_call = self._return_addrs[place] == return_addrs
        return np.where(is_call, self._call_goals[place].astype(np.int64), -1)

    def _functions_at(self, addrs: Ints) -> Ints:
        """Return the function at each address, -1 if there is none."""
        if not len(self._range_starts):
            return np.full(len(addrs), -1, np.int64)
        place = np.searchsorted(self._range_starts, addrs, side="right") - 1
        inside = (place >= 0) & (addrs < self._range_ends[place])
        return np.where(inside, self._range_functions[place].astype(np.int64), -1)

    def _chain(self, goal: int, callee: int) -> tuple[TailCall, ...]:
        """Return the only way from a goal to a function by tail calls, without it; or nothing."""
        members = self._members(goal)
        if callee in members or min(members) < 0:
            return ()
        edges: dict[int, dict[int, list[int]]] = {}  # function → next one → jumps
        to_see = list(members)
        while to_see:
            function = to_see.pop()
            if function in edges or function == callee:
                continue
            out = self._tail_calls(function)
            if out is None or len(edges) >= _MAX_REACHED:
                return ()
            edges[function] = out
            to_see += out
        ways: list[list[int]] = []
        for member in members:
            _ways([member], callee, edges, ways)
        if len(ways) != 1:
            return ()
        way = ways[0]
        chain = []
        for function, following in zip(way, [*way[1:], callee], strict=True):
            jumps = edges[function][following]
            chain.append(TailCall(int(self._entries[function]), jumps[0] if len(jumps) == 1 else 0))
        return tuple(chain)

    def _tail_calls(self, function: int) -> dict[int, list[int]] | None:
        """Return the targets of a function's tail calls, with the jumps; None if incomplete."""
        if not self._is_complete[function]:
            return None
        start, end = np.searchsorted(self._tail_functions, [function, function + 1]).tolist()
        out: dict[int, list[int]] = {}
        for i in range(start, end):
            for member in self._members(int(self._tail_goals[i])):
                if member == UNKNOWN:
                    return None
                if member >= 0:
                    out.setdefault(member, []).append(int(self._tail_addrs[i]))
        return out

    def _members(self, goal: int) -> list[int]:
        first, end = self._goal_first[goal : goal + 2].tolist()
        members: list[int] = self._goal_members[first:end].tolist()
        return members

    def _check(self) -> None:
        """Check that all numbers are valid indexes; raise LinesError if not."""
        n, goals = len(self._entries), len(self._goal_first) - 1
        first = self._goal_first.astype(np.int64)
        right = (
            len(self._is_complete) == n
            and len(self._range_starts) == len(self._range_ends) == len(self._range_functions)
            and len(self._return_addrs) == len(self._call_goals)
            and len(self._tail_functions) == len(self._tail_addrs) == len(self._tail_goals)
            and goals > 0
            and first[0] == 0
            and first[-1] == len(self._goal_members)
            and bool((np.diff(first) > 0).all())
            and self._range_functions.max(initial=0) < max(n, 1)
            and self._tail_functions.max(initial=0) < max(n, 1)
            and self._call_goals.max(initial=0) < goals
            and self._tail_goals.max(initial=0) < goals
            and self._goal_members.max(initial=0) < max(n, 1)
        )
        if not right:
            raise LinesError("a damaged table of calls")


def _ways(
    way: list[int], callee: int, edges: dict[int, dict[int, list[int]]], found: list[list[int]]
) -> None:
    """Add the ways that begin with ``way`` and visit no function twice, until there are two."""
    to_see = [way]
    steps = 0
    while to_see and len(found) < 2:
        way = to_see.pop()
        steps += 1
        if steps > 16 * _MAX_REACHED:  # too many branches: give up, as if there were two ways
            found += [way, way]
        for following in edges[way[-1]]:
            if following == callee:
                found.append(way)
            elif following not in way:
                to_see.append([*way, following])


def pack(**arrays: array[int]) -> bytes:
    """Return the file contents for the arrays of ``_ARRAYS``."""
    lengths = [len(arrays[name]) for name in _ARRAYS]
    parts = [_MAGIC, struct.pack(f"<{len(lengths)}Q", *lengths)]
    for name, kind in _ARRAYS.items():
        data = np.asarray(arrays[name]).astype(kind).tobytes()
        parts.append(data + bytes(-len(data) % 8))
    return b"".join(parts)


def _unpack(payload: bytes) -> dict[str, npt.NDArray[Any]]:
    header = struct.Struct(f"<8s{len(_ARRAYS)}Q")
    if len(payload) < header.size or payload[:8] != _MAGIC:
        raise LinesError("no table of calls")
    lengths = header.unpack_from(payload)[1:]
    arrays = {}
    place = header.size
    for (name, kind), length in zip(_ARRAYS.items(), lengths, strict=True):
        size = length * np.dtype(kind).itemsize
        if place + size > len(payload):
            raise LinesError("a truncated table of calls")
        arrays[name] = np.frombuffer(payload, kind, length, place)
        place += size + -size % 8
    return arrays
