"""Read the stacks of austin: ``P123;T0:124;file.py:function:12;… WEIGHT``, a line for each sample.

A file begins with lines of metadata, ``# mode: cpu``. Weights are microseconds, or bytes of memory
that was taken; memory that was given back is left out. In the mode "full" a line ends in
``TIME,IS_IDLE,MEMORY``: the times are taken, and an idle thread has no CPU time.

Source: austin's README, and austin-python's ``collapsed_stack.py``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from ..model import Clock, Frame, FrameKind
from ..recording.figures import counted
from ..recording.recording import Recording
from .builder import Builder, Known, kind_of
from .columns import line_of, tid_of
from .stack_sums import StackSums

_STACK = re.compile(r"P(\d+);T(?:\d+:)?([^;\s]+)((?:;[^;]*)*)")
_WEIGHT = re.compile(r"(-?\d{1,18})(?:,([01]),-?\d{1,18})?")
_OLD_FRAME = re.compile(r"(.*\S) \((.*?)(?::(\d+))?\)")
_STARTS = b"# austin: "
_NS_PER_US = 1000
_MAX_METADATA = 100


def matches(head: bytes) -> bool:
    """Tell by the start of a file whether it is of this format."""
    return head.startswith(_STARTS)


def is_written_by_austin(lines: Iterable[str]) -> bool:
    """Tell the same by its first lines; they may be without metadata."""
    lines = [each for each in lines if each.strip()]
    stacks = [each for each in lines if not each.startswith("# ")]
    return bool(lines) and (
        lines[0].startswith(_STARTS.decode())
        or (bool(stacks) and all(_STACK.fullmatch(each.rpartition(" ")[0]) for each in stacks))
    )


def read(lines: Iterable[str], builder: Builder) -> Recording:
    """Return the recording of the lines of a file. Raises InputError."""
    metadata: dict[str, str] = {}
    stacks = _Stacks(builder)
    sums = StackSums(builder)
    cpu: list[int] = []  # another column of the sums
    has_cpu = False
    n_released = 0
    for number, line in enumerate(lines, 1):
        text, _, weight = line.rpartition(" ")
        place = sums.known.get(text)
        if place is None:
            if not line.strip():
                continue
            if line.startswith("# "):
                _remember(metadata, line)
                continue
            place = sums.place(*stacks.stack(text, number))
            cpu.extend([0] * (place + 1 - len(cpu)))
            sums.remember(text, place)
        found = _WEIGHT.fullmatch(weight)
        if found is None:
            raise builder.damaged(f"line {number:,}: it does not end in a weight")
        value = int(found[1])
        if value < 0:
            n_released += 1
            continue
        sums.weight[place] += value
        sums.samples[place] += 1
        if found[2]:
            has_cpu = True
            cpu[place] += value if found[2] == "0" else 0
    known = _known(metadata, has_cpu=has_cpu)
    known.pid = stacks.pids.pop() if len(stacks.pids) == 1 else 0
    if n_released:
        known.notes.append(f"{counted(n_released, 'release')} of memory left out")
    scale = 1 if known.weights == "bytes" else _NS_PER_US
    sums.finish(ns=scale, cpu=cpu if has_cpu else None)
    return builder.finish(known)


def _remember(metadata: dict[str, str], line: str) -> None:
    name, _, value = line[2:].partition(": ")
    if len(metadata) < _MAX_METADATA:
        metadata[name] = value


def _known(metadata: dict[str, str], *, has_cpu: bool) -> Known:
    mode = metadata.get("mode", "")
    known = Known("folded stacks, by austin")
    if mode == "memory":
        known.weights = "bytes"
    elif has_cpu:
        known.clocks = (Clock.WALL, Clock.CPU)
    elif mode == "cpu":
        known.clocks = (Clock.CPU,)
    elif not mode:
        known.weights = "time"
    return known


class _Stacks:
    """Makes stacks of the texts of a file, and keeps the numbers of its processes."""

    def __init__(self, builder: Builder) -> None:
        self._builder = builder
        self._frames: dict[str, int] = {}
        self.pids: set[int] = set()

    def stack(self, text: str, number: int) -> tuple[int, int]:
        """Return the numbers of the thread and the stack of a line without its weight."""
        found = _STACK.fullmatch(text)
        if found is None:
            raise self._builder.damaged(f"line {number:,}: it does not begin with P…;T…")
        pid, name, rest = found.groups()
        self.pids.add(tid_of(pid))
        tid = tid_of(name)
        thread = self._builder.thread((pid, name), "" if tid else name, tid)
        frames = []
        for each in rest.split(";")[1:]:
            frame = self._frames.get(each)
            if frame is None:
                frame = self._frames[each] = self._builder.frame(self._frame(each))
            frames.append(frame)
        return thread, self._builder.stack(frames)

    def _frame(self, text: str) -> Frame:
        # Without the end, each parenthesis would be tried.
        if text.endswith(")") and (old := _OLD_FRAME.fullmatch(text)):
            name, file, line = old.groups()
        else:
            file, name, line = ("", "", *text.rsplit(":", 2))[-3:]
            if not line.isdecimal():  # ":GC:", and what has no place
                file, name, line = "", text.strip(":"), ""
        kind = kind_of(file)
        if kind is FrameKind.NATIVE and file.startswith("<"):  # <string>, <frozen importlib>
            kind = FrameKind.PYTHON
        return Frame(self._builder.function(name or "[unknown]", "", file, kind), line_of(line))
