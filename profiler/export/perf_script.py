"""Write what ``perf script`` prints: for FlameGraph, inferno, speedscope and Firefox Profiler.

A record is a run (``runs``), in order of time for each thread: name, pid and tid of the thread, the
time of its begin, its weight as the period, and the stack, innermost first. Times are seconds of
the target's CLOCK_MONOTONIC, as perf has them; periods are nanoseconds. The event is
``cpu-clock``, ``wall-clock`` or ``off-cpu``; ``samples`` if the period is a number of stacks. The
processor is left out, as it is not known. Losses and doubts are comments at the top.

Readers that go by the period are exact: ``stackcollapse-perf.pl`` and ``inferno-collapse-perf``.
speedscope takes the time from the middle between two records to the next such middle, so its shares
are only near. Firefox Profiler and ``gprof2dot`` count records: as one run is one record, whatever
its length, their shares are wrong. Formats ``speedscope``, ``firefox`` and ``pprof`` are right.

What these readers would misunderstand is spelled another way. In the name of a thread, the space
before a number becomes ``_``. In functions, ``->``, which separates inlined ones, becomes ``→``; a
first ``(``, which hides a function, becomes ``[``; an end like ``+0x40`` gets the offset ``+0x0``,
which they remove. Other functions have no offset. Control characters become spaces. Frames without
an address have address 0.

Source: perf's builtin-script.c; stackcollapse-perf.pl; inferno's collapse/perf.rs; importers of
speedscope and Firefox Profiler.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import BinaryIO

from ..model import NO_MODULE, Clock, FrameKind, Thread
from ..recording.profile.stacks import NO_ADDRESS
from ..tree.labels import place
from ..version import version
from .folded import ALL, clean
from .leaf_stacks import NO_FUNCTION, FrameKey, LeafStacks, leaves_of, threads_with_weight
from .request import ExportRequest
from .runs import NS_PER_SAMPLE, Runs, StackNumbers

_EVENT_OF = {Clock.CPU: "cpu-clock", Clock.WALL: "wall-clock", Clock.OFF_CPU: "off-cpu"}
_NS_PER_S = 1_000_000_000
_KERNEL, _UNKNOWN = "[kernel.kallsyms]", "[unknown]"
# Firefox Profiler knows a file by its first line, which is this one or a record.
_RULE = "# ========\n"
_BEFORE_NUMBER = re.compile(r"\s+(?=[0-9./:]+(?:\s|$))")
_OFFSET = re.compile(r"\+0x[0-9a-f]+$")
_OF_MODULES = str.maketrans(" ()", "_[]")
_FEW_RECORDS = 1 << 8  # written at once

Frame = tuple[int, FrameKey]
"""An address id, and what is there."""
_WHOLE: Frame = (NO_ADDRESS, NO_FUNCTION)


def write(request: ExportRequest, file: BinaryIO) -> None:
    """Write a profile as perf script."""
    leaves = leaves_of(request, request.selection.thread_ids)
    runs = Runs(request, leaves)
    stacks = LeafStacks(request)
    numbers: StackNumbers[Frame] = StackNumbers(stacks, stacks.addressed_keys, _WHOLE)
    threads, _ = threads_with_weight(request, leaves, numbers.counts)
    lines = _Lines(request, stacks, numbers.frames)
    about = [f"flametap {version()}", request.title, request.what, *request.notes]
    comments = "".join(f"# {clean(each)}\n" for each in about)
    file.write(f"{_RULE}{comments}{_RULE}#\n".encode("utf-8", "replace"))
    words = clean(request.counted) if request.counted else _EVENT_OF[request.shown_clock]
    event = words.replace(" ", "-").encode("utf-8", "replace")
    divisor = NS_PER_SAMPLE if request.counted else 1
    plain = request.profile.plain_threads
    for thread in threads:
        whose = _whose(plain.get(thread.thread_id, thread), request.process_of(thread).pid)
        records: list[bytes] = []
        for begin_ns, length_ns, stack in runs.of(thread.thread_id, numbers.stack):
            seconds = b"%d.%09d" % divmod(begin_ns, _NS_PER_S)
            head = b"%b %b: %10d %b:\n" % (whose, seconds, length_ns // divisor, event)
            known = lines.of_all()
            records.append(head + b"".join([known[each] for each in reversed(stack)]) + b"\n")
            if len(records) == _FEW_RECORDS:
                file.write(b"".join(records))
                records.clear()
        file.write(b"".join(records))


def _whose(thread: Thread, pid: int) -> bytes:
    """Return the name of a thread and its numbers."""
    name = _BEFORE_NUMBER.sub("_", clean(thread.name))
    if name.startswith("#"):  # a comment
        name = f"_{name[1:]}"
    numbers = f"{pid}/{thread.tid}" if pid else f"{thread.tid}"
    # Readers want two characters before the numbers.
    return f"{name:<2} {numbers}".encode("utf-8", "replace")


class _Lines:
    """The lines of frames, by number."""

    def __init__(self, request: ExportRequest, stacks: LeafStacks, frames: Sequence[Frame]) -> None:
        self._stacks, self._frames = stacks, frames
        self._modules = request.profile.modules
        self._full_filenames = request.full_filenames
        self._lines: list[bytes] = []

    def of_all(self) -> Sequence[bytes]:
        """Return the lines of all frames until now."""
        for number in range(len(self._lines), len(self._frames)):
            line = self._line(*self._frames[number])
            self._lines.append(line.encode("utf-8", "replace"))
        return self._lines

    def _line(self, address: int, key: FrameKey) -> str:
        if key == NO_FUNCTION:
            return f"\t{0:16x} {ALL} ({_UNKNOWN})\n"
        function, own_line = self._stacks.function(key), key[1]
        module_id, addr = self._stacks.code(address)
        if module_id != NO_MODULE:
            module = self._modules[module_id].path
        elif function.kind is FrameKind.SYSCALL:
            module = _KERNEL
        elif function.kind is FrameKind.PYTHON:
            module = place(function, full_filenames=self._full_filenames)
        else:
            module = function.module or function.file
        name = clean(f"{function.name}:{own_line}" if own_line else function.name)
        return f"\t{addr:16x} {_symbol(name)} ({_module(module)})\n"


def _symbol(name: str) -> str:
    name = name.replace("->", "→")
    if name.startswith("("):
        name = name.replace("(", "[", 1).replace(")", "]", 1)
    return f"{name}+0x0" if _OFFSET.search(name) else name


def _module(name: str) -> str:
    return clean(name).translate(_OF_MODULES) if name else _UNKNOWN
