"""Read traces in Chrome's format: of py-spy, VizTracer, Chromium, compilers, and many others.

Slices of a thread are its stacks: events that have a duration ("X"), and pairs of begin and end
("B", "E"). The end of a slice is the end of all that has begun within it; one without a begin is
left out; what is open at last ends with the thread's last event. All other events are left out.

If CPU profiles of V8 are in the trace, they alone are shown.

Source: "Trace Event Format" (the document of Chrome's trace viewer); slice_tracker.cc of Perfetto;
trace-event.ts of speedscope.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from ..model import Frame
from ..recording.figures import counted
from ..recording.recording import Recording
from .builder import Builder, Known
from .columns import line_of, tid_of, whole
from .slices import Slices, own_times
from .trace_profiles import Profiles

_NS_PER_US = 1_000.0
_SOURCE = "trace events"
_PHASES = ("X", "B", "E")

Threads = dict[tuple[Any, Any], "_Thread"]


def matches(data: Any) -> bool:
    """Tell whether what a JSON file has in it is of this format."""
    if isinstance(data, dict):
        return isinstance(data.get("traceEvents"), list)
    return isinstance(data, list) and bool(data) and isinstance(data[0], dict) and "ph" in data[0]


def closed(text: bytes) -> bytes | None:
    """Return a list of events with its end, which may be missing; None if it is no such list."""
    start = text.lstrip()[:1]
    if start != b"[" or b'"ph"' not in text:
        return None
    return text.rstrip().rstrip(b",") + b"]"


def read(data: Any, builder: Builder) -> Recording:
    """Return the recording of a file. Raises InputError, or whatever impossible contents raise."""
    events = data["traceEvents"] if isinstance(data, dict) else data
    names = _Names(events)
    profiles = Profiles(events)
    if profiles:
        profiles.add(builder, names.of([thread for thread, _ in profiles.found]))
        known = Known(f"{_SOURCE}, by V8", weights="time", has_moments=True)
        if any(event.get("ph") in _PHASES for event in events):
            known.notes.append("only the CPU profiles of the trace are shown")
        return builder.finish(known)
    threads: Threads = {}
    for event in events:
        phase = event.get("ph")
        if phase in _PHASES:
            key = event.get("pid"), event.get("tid")
            thread = threads.get(key)
            if thread is None:
                thread = threads[key] = _Thread(builder)
            thread.take(event, phase)
    known = Known(_SOURCE, weights="time", has_moments=True)
    slices = {key: thread.slices() for key, thread in threads.items()}
    start_ns = min(
        (int(each.begin_ns.min()) for each in slices.values() if len(each.frame)), default=0
    )
    n_cut, name_of = 0, names.of(threads)
    for key, each in slices.items():
        own = own_times(
            Slices(each.begin_ns - start_ns, each.end_ns - start_ns, each.frame), builder.child
        )
        number = builder.thread(key, name_of(*key), tid_of(key[1]))
        builder.add(number, own.node, own.wall_ns, t0=own.t0_ns)
        n_cut += own.n_cut
    if n_cut:
        known.notes.append(
            f"{counted(n_cut, 'slice')} overlapping the end of an outer one: cut there"
        )
    n_open = sum(thread.n_open for thread in threads.values())
    if n_open:
        known.notes.append(f"{counted(n_open, 'slice')} without an end: shown to the last event")
    return builder.finish(known)


class _Names:
    """What metadata says of threads and processes."""

    def __init__(self, events: list[Any]) -> None:
        self._threads: dict[tuple[Any, Any], str] = {}
        self._processes: dict[Any, str] = {}
        for event in events:
            if event.get("ph") in ("M", "m"):
                name = str((event.get("args") or {}).get("name") or "")
                if event.get("name") == "thread_name":
                    self._threads[event.get("pid"), event.get("tid")] = name
                elif event.get("name") == "process_name":
                    self._processes[event.get("pid")] = name

    def of(self, threads: Iterable[tuple[Any, Any]]) -> Callable[[Any, Any], str]:
        """Return what names a thread of these; with its process if they are of several."""
        has_many = len({pid for pid, _ in threads}) > 1

        def name_of(pid: Any, tid: Any) -> str:
            name = self._threads.get((pid, tid), "")
            if not name and not tid_of(tid):
                name = f"thread {tid}"
            if not has_many:
                return name
            process = self._processes.get(pid) or f"process {pid}"
            return f"{process}: {name}" if name else process

        return name_of


class _Thread:
    """The slices of a thread, as its events are read.

    Attributes:
        n_open: of how many the end is missing.
    """

    def __init__(self, builder: Builder) -> None:
        self._builder = builder
        self._frames: dict[Any, int] = {}
        self._begin, self._duration, self._frame = array("d"), array("d"), array("q")
        self._pairs: list[tuple[float, str, int]] = []  # (when, name, frame or -1 for an end)
        self.n_open = 0

    def take(self, event: dict[str, Any], phase: str) -> None:
        """Take an event."""
        when = float(event["ts"])
        if phase == "E":
            self._pairs.append((when, str(event.get("name") or ""), -1))
            return
        name = str(event.get("name") or "")
        args = event.get("args")
        place: tuple[Any, ...] = ()
        if isinstance(args, dict) and isinstance(args.get("filename"), str):
            place = args["filename"], line_of(args.get("line"))
        frame = self._frames.get((name, place))
        if frame is None:
            frame = self._frames[name, place] = self._made(name, place)
        if phase == "B":
            self._pairs.append((when, name, frame))
            return
        duration = event.get("dur", event.get("tdur"))
        self._begin.append(when)
        self._duration.append(0.0 if duration is None else float(duration))
        self._frame.append(frame)

    def _made(self, name: str, place: tuple[Any, ...]) -> int:
        if place:
            file, line = place
        else:
            name, file, line = _with_place(name)
        return self._builder.frame(Frame(self._builder.function(name, file=file), line))

    def slices(self) -> Slices:
        """Return all slices."""
        begin, duration = np.array(self._begin), np.array(self._duration)
        last = float((begin + duration).max(initial=self._pairs[-1][0] if self._pairs else 0.0))
        pairs = self._matched(last)
        begin = np.append(begin, [begin for begin, _, _ in pairs])
        duration = np.append(duration, [end - begin for begin, end, _ in pairs])
        frame = [*self._frame, *(frame for _, _, frame in pairs)]
        begin_ns, length_ns = whole(begin, _NS_PER_US), whole(duration, _NS_PER_US)
        if int(length_ns.min(initial=0)) < 0:
            raise self._builder.damaged("a slice ends before it begins")
        return Slices(begin_ns, begin_ns + length_ns, np.array(frame, np.int64))

    def _matched(self, last: float) -> list[tuple[float, float, int]]:
        """Return begin, end and frame of each pair of events, in order of their begins.

        Args:
            last: the end of those that have none.
        """
        self._pairs.sort(key=lambda pair: pair[0])
        found: list[tuple[float, float, int]] = []
        opened: list[tuple[int, str]] = []  # (place in ``found``, name)
        n_open: dict[str, int] = {}  # by name
        for when, name, frame in self._pairs:
            if frame >= 0:
                opened.append((len(found), name))
                found.append((when, last, frame))
                n_open[name] = n_open.get(name, 0) + 1
            elif opened and (not name or n_open.get(name)):
                is_met = False
                while not is_met:
                    place, its_name = opened.pop()
                    n_open[its_name] -= 1
                    begin, _, its_frame = found[place]
                    found[place] = begin, when, its_frame
                    is_met = not name or its_name == name
        self.n_open = len(opened)
        return found


def _with_place(name: str) -> tuple[str, str, int]:
    """Return what "function (file:line)" says, as VizTracer has it; all as a name if it is none."""
    function, found, rest = name.rpartition(" (")
    file, colon, line = rest.removesuffix(")").rpartition(":")
    if found and colon and rest.endswith(")") and line.isascii() and line.isdigit():
        return function, file, line_of(int(line[:9]))
    return name, "", 0
