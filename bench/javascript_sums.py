"""Self times of JavaScript functions in a recording of flametap."""

from __future__ import annotations

import os
import subprocess
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

from flametap.capture.live import Capture
from flametap.model import Clock, Frame, FrameKind
from flametap.recording.profile.stacks import TRUNCATED
from flametap.symbols.object.elf import from_bytes
from flametap.tree.calltree import in_kernel
from javascript_peers import COLLECTS, PLACE, Sums

_REGEXP = "(regular expression)"
_MAKES_FRAME = (b"\x55\x48\x89\xe5", b"\x55\x48\x8b\xec")  # push %rbp; mov %rsp,%rbp


class Builtins:
    """The builtins in node's file. Needs nm."""

    def __init__(self, pid: int) -> None:
        exe = os.path.realpath(f"/proc/{pid}/exe")
        self._elf = from_bytes(Path(exe).read_bytes())
        symbols = subprocess.check_output(["nm", exe], text=True).splitlines()
        self._starts = sorted(int(line.split()[0], 16) for line in symbols if " Builtins_" in line)

    def has_frame(self, file_addr: int) -> bool:
        """Whether a builtin has made a frame of its own at an instruction, or may have."""
        start = self._starts[bisect_right(self._starts, file_addr) - 1]
        code = self._elf.at_addr(start, file_addr - start)
        return any(each in code for each in _MAKES_FRAME)


def own(capture: Capture, tid: int) -> Sums:
    """CPU time in the code of functions, by place."""
    sums = Sums()
    for stack, _, weight_ns in _stacks(capture, tid, Clock.CPU):
        if stack and stack[0] and (place := _place(stack[0][-1])):
            sums[place] += weight_ns
    return sums


def with_calls(capture: Capture, tid: int, builtins: Builtins | None = None) -> Sums:
    """Time of functions, by place, with the builtins and the native code that they call.

    That is wall time, waits included, but not time of the garbage collector.

    Args:
        capture: the recording.
        tid: the thread.
        builtins: if given, leave out the caller of a builtin that has no frame.
    """
    has_frame = cache(builtins.has_frame) if builtins else lambda _: True
    sums = Sums()
    for stack, address_id, weight_ns in _stacks(capture, tid, Clock.WALL):
        callers = stack
        if stack and stack[0] and stack[0][-1].function.name.startswith("Builtins_"):
            raw, _ = capture.profile.locate(address_id)
            if not has_frame(raw.addr):
                callers = stack[2:]
        if place := _holder(callers):
            sums[place] += weight_ns
    return sums


def _stacks(
    capture: Capture, tid: int, clock: Clock
) -> Iterator[tuple[list[list[Frame]], int, int]]:
    """Yield the stacks of a thread: frames by address, the first address's id, and the weight.

    The innermost address is first; of the functions inlined at an address the innermost is last. A
    stack in a system call begins with an address without frames.
    """
    (thread,) = (each.thread_id for each in capture.profile.thread_infos() if each.tid == tid)
    trie = capture.profile.trie()
    leaves = capture.profile.leaf_weights(clock, frozenset({thread}))
    leaves = in_kernel(leaves, trie, capture.names)
    frames = cache(capture.names.frames)
    rows = zip(leaves.node.tolist(), leaves.sysno.tolist(), leaves.weight.tolist(), strict=True)
    for node, sysno, weight in rows:
        stack: list[list[Frame]] = [[]] if sysno >= 0 else []
        address_id = int(trie.address[node])
        while node > TRUNCATED:
            stack.append(frames(int(trie.address[node])))
            node = int(trie.parent[node])
        yield stack, address_id, weight


def _holder(stack: Sequence[Sequence[Frame]]) -> str:
    """Place of the innermost function; "" if it has none, or the collector works above it."""
    for frames in stack:
        for frame in reversed(frames):
            function = frame.function
            if function.kind is FrameKind.JAVASCRIPT and function.name != _REGEXP:
                return _place(frame)
            if COLLECTS.search(function.full_name or function.name):
                return ""
    return ""


def _place(frame: Frame) -> str:
    """file:line:column where a JavaScript function begins; "" for others."""
    if frame.function.kind is not FrameKind.JAVASCRIPT:
        return ""
    place = PLACE.search(frame.function.full_name)
    return place[0].strip() if place else ""
