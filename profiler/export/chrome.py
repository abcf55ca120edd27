"""Write Chrome's trace events: for chrome://tracing, Perfetto and all that reads these.

Each function is a slice on the track of its thread, between an event of phase "B" and one of phase
"E", as long as it stays on the stack: equal functions of two samples in a row are one slice. Times
are microseconds since the start of the recording, with three decimals, at the moment when they were
(``runs``). So the innermost slices of a thread add up to its weight by the chosen clock. Where a
thread has no weight by that clock, there is none. If weights are numbers of stacks, one microsecond
stands for one, in no order.

The pairs are exact where complete events ("X") are not: these have an end that readers compute, as
a sum of two fractions. A thread has the tid of the kernel, unless another one of the file has it.
"cat" is the module. Losses and doubts, and the cost of the recording, are in "otherData".

A line is part of the name if the lines of functions are separated. Events that end have empty
"args", and those that begin have none: so speedscope does not take an end for that of a function of
the same name that begins at this moment. It takes NAME.chrome.json for a file of DevTools, however.

Source: the document "Trace Event Format"; importers of Perfetto, speedscope and Firefox Profiler.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import BinaryIO

from ..version import version
from .folded import ALL
from .json_pieces import encode, text
from .leaf_stacks import NO_FUNCTION, FrameKey, LeafStacks, leaves_of, threads_with_weight
from .request import ExportRequest
from .runs import Run, Runs, StackNumbers

_FIRST_FREE_TID = 1 << 22  # above those of the kernel
_FEW_EVENTS = 1 << 12  # written at once


def write(request: ExportRequest, file: BinaryIO) -> None:
    """Write a profile as trace events."""
    leaves = leaves_of(request, request.selection.thread_ids)
    runs = Runs(request, leaves)
    stacks = LeafStacks(request)
    numbers: StackNumbers[FrameKey] = StackNumbers(stacks, stacks.keys, NO_FUNCTION)
    threads, _ = threads_with_weight(request, leaves, numbers.counts)
    processes = request.processes.values()
    other = request.program or request.title
    named = [_named(each.pid, 0, "process_name", each.program or other) for each in processes]
    file.write(b'{"traceEvents":[' + b",\n".join(named))
    names = _Names(stacks, numbers.frames)
    taken: set[int] = set()
    for thread in threads:
        pid = request.process_of(thread).pid
        tid = _free(thread.tid, taken)
        own = thread.name if tid == thread.tid else f"{thread.name} ({thread.tid})"
        file.write(b",\n" + _named(pid, tid, "thread_name", own))
        track = _Track(pid, tid, request.profile.start_ns, names, file)
        track.write(runs.of(thread.thread_id, numbers.stack))
    about = {
        "exporter": f"flametap {version()}",
        "name": text(f"{request.title}, {request.what}"),
        "notes": [text(note) for note in request.notes],
        "cost": request.cost,
    }
    file.write(b'],"otherData":' + encode(about) + b"}")


def _named(pid: int, tid: int, what: str, name: str) -> bytes:
    """Return the event that names a process or a thread."""
    event = {"ph": "M", "pid": pid, "tid": tid, "name": what, "args": {"name": text(name)}}
    return encode(event)


def _free(tid: int, taken: set[int]) -> int:
    """Return a tid that no other track of the file has."""
    if tid in taken:
        tid = _FIRST_FREE_TID + len(taken)
    taken.add(tid)
    return tid


def _ts(ns: int) -> bytes:
    """Return a time in microseconds."""
    return b"%d.%03d" % divmod(ns, 1000)


class _Names:
    """The fields "cat" and "name" of frames, by number."""

    def __init__(self, stacks: LeafStacks, frames: Sequence[FrameKey]) -> None:
        self._stacks, self._frames = stacks, frames
        self._begins: list[bytes] = []
        self._ends: list[bytes] = []

    def fields(self) -> tuple[Sequence[bytes], Sequence[bytes]]:
        """Return the fields of events that begin, and that end: of all frames until now."""
        for number in range(len(self._begins), len(self._frames)):
            key = self._frames[number]
            name, module = ALL, ""
            if key != NO_FUNCTION:
                function = self._stacks.function(key)
                name, module = function.name, function.module
            if key[1]:
                name = f"{name}:{key[1]}"
            named = b',"name":' + encode(text(name))
            self._begins.append(b',"cat":' + encode(text(module)) + named + b"}")
            self._ends.append(named + b',"args":{}}')
        return self._begins, self._ends


class _Track:
    """Write the slices of a thread."""

    def __init__(self, pid: int, tid: int, origin_ns: int, names: _Names, file: BinaryIO) -> None:
        self._origin_ns, self._names, self._file = origin_ns, names, file
        self._begin, self._end = (
            b',\n{"ph":"%b","pid":%d,"tid":%d,"ts":' % (phase, pid, tid) for phase in (b"B", b"E")
        )
        self._events: list[bytes] = []

    def write(self, runs: Iterable[Run[tuple[int, ...]]]) -> None:
        """Write a slice for each function, for as long as it is on the stack."""
        shown: tuple[int, ...] = ()
        shown_until_ns = 0
        for begin_ns, length_ns, stack in runs:
            if begin_ns != shown_until_ns:
                self._change(shown, (), shown_until_ns)
                shown = ()
            self._change(shown, stack, begin_ns)
            shown, shown_until_ns = stack, begin_ns + length_ns
        self._change(shown, (), shown_until_ns)
        self._flush()

    def _change(self, before: tuple[int, ...], after: tuple[int, ...], at_ns: int) -> None:
        """End the slices that are not in the next stack, and begin those that are new in it."""
        same = 0
        for one, other in zip(before, after, strict=False):
            if one != other:
                break
            same += 1
        moment = _ts(at_ns - self._origin_ns)
        begins, ends = self._names.fields()
        self._events += [self._end + moment + ends[each] for each in reversed(before[same:])]
        self._events += [self._begin + moment + begins[each] for each in after[same:]]
        if len(self._events) >= _FEW_EVENTS:
            self._flush()

    def _flush(self) -> None:
        self._file.write(b"".join(self._events))
        self._events.clear()
