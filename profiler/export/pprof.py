"""Write pprof: for ``go tool pprof``, Grafana, Pyroscope, Polar Signals and speedscope.

A sample is a stack in a thread, and what the thread did there. Its values are those of all clocks,
and the number of stacks taken (not of a range of time, of which that is not known). The clock of
the request is the one that viewers show first. Labels: ``thread``, ``tid``, ``process``, ``pid``,
``state``, ``wait`` (why it sleeps) and ``gil``. All are texts, because Pyroscope drops numbers.

A location is an address with the functions that are inlined there, in a mapping with its build-id.
Frames without an address have none: those of interpreted programs, system calls, and all of a file
that was written with a shape. Losses and doubts are comments.

The file is written piece by piece: samples first, then what they refer to. The order of fields does
not matter in a protocol buffer.

Source: google/pprof, proto/profile.proto.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterator, Sequence
from typing import BinaryIO

from ..model import Clock, Process
from .profile_tables import ProfileTables, mapped
from .protobuf import message, packed, whole, wholes
from .request import ExportRequest
from .time_rows import STATES, Int64s, TimeRows, gil_of, time_rows, wait_of

# Fields of Profile.
_SAMPLE_TYPE, _SAMPLE, _MAPPING, _LOCATION, _FUNCTION, _STRING = 1, 2, 3, 4, 5, 6
_TIME_NS, _DURATION_NS, _PERIOD_TYPE, _PERIOD, _COMMENT, _DEFAULT_TYPE = 9, 10, 11, 12, 13, 14

_TYPE_OF = {Clock.CPU: "cpu", Clock.WALL: "wall", Clock.OFF_CPU: "off_cpu"}
_NS = "nanoseconds"
_FEW_SAMPLES = 1 << 12  # written at once


def write(request: ExportRequest, file: BinaryIO) -> None:
    """Write a profile as pprof, packed with gzip."""
    with gzip.GzipFile("", "wb", 6, file, 0) as packed_file:
        for piece in _pieces(request):
            packed_file.write(piece)


def _pieces(request: ExportRequest) -> Iterator[bytes]:
    rows = time_rows(request)
    tables = _Tables(request)
    values = _values(request, rows)
    for name, unit, _ in values:
        yield message(_SAMPLE_TYPE, tables.value_type(name, unit))
    yield from _samples(request, rows, [column for *_, column in values], tables)
    status = request.status
    rate_hz = status.effective_rate_hz or status.rate_hz
    yield message(_PERIOD_TYPE, tables.value_type("cpu", _NS))
    yield whole(_PERIOD, round(1e9 / rate_hz) if rate_hz else 0)
    yield whole(_TIME_NS, request.started_at_ns)
    yield whole(_DURATION_NS, request.duration_ns)
    names = [name for name, *_ in values]
    first = "samples" if request.counts_samples else _TYPE_OF[request.shown_clock]
    yield whole(_DEFAULT_TYPE, tables.string(first if first in names else names[0]))
    comments = [request.title, *request.part, *request.notes]
    yield packed(_COMMENT, [tables.string(each) for each in comments])
    yield from tables.pieces()


def _values(request: ExportRequest, rows: TimeRows) -> list[tuple[str, str, Int64s]]:
    """Return the types of values: names, units and columns."""
    status = request.status
    columns = {Clock.CPU: rows.cpu_ns, Clock.WALL: rows.wall_ns, Clock.OFF_CPU: rows.off_cpu_ns}
    if status.weights:  # of a file of another profiler
        unit = {"time": _NS, "bytes": "bytes"}.get(status.weights, "count")
        found = [(status.weights.replace(" ", "_"), unit, rows.wall_ns)]
    else:
        known = filter(status.has_clock, Clock)
        found = [(_TYPE_OF[each], _NS, columns[each]) for each in known]
    if rows.samples is not None and status.weights != "samples":
        found.append(("samples", "count", rows.samples))
    return found


def _process_labels(request: ExportRequest, process: Process, tables: _Tables) -> bytes:
    """Return what says which process a sample is of; nothing where that is not known."""
    if not process.pid:
        return b""
    name = tables.label("process", process.program or request.program)
    return name + tables.label("pid", str(process.pid))


def _samples(
    request: ExportRequest, rows: TimeRows, values: Sequence[Int64s], tables: _Tables
) -> Iterator[bytes]:
    processes = {
        number: _process_labels(request, each, tables) for number, each in request.processes.items()
    }
    labels: dict[int, bytes] = {
        number: tables.label("thread", each.name)
        + tables.label("tid", str(each.tid))
        + processes[request.process_of(each).number]
        for number, each in request.profile.threads.items()
    }
    first = next(iter(processes.values()))
    doing: dict[tuple[int, int, int], bytes] = {}
    keys = rows.thread_id, rows.node, rows.sysno, rows.state, rows.activity, rows.lock
    columns = [each.tolist() for each in (*keys, *values)]
    found: list[bytes] = []
    for thread_id, node, sysno, state, activity, lock, *numbers in zip(*columns, strict=True):
        stack = tables.stack(node, sysno)
        if stack is None:
            continue
        what = doing.get((state, activity, lock))
        if what is None:
            what = doing[state, activity, lock] = (
                tables.label("state", STATES[state])
                + tables.label("wait", wait_of(state, activity))
                + tables.label("gil", gil_of(lock))
            )
        whose = labels.get(thread_id, first)
        found.append(message(_SAMPLE, tables.encoded(stack) + packed(2, numbers) + whose + what))
        if len(found) == _FEW_SAMPLES:
            yield b"".join(found)
            found = []
    yield b"".join(found)


class _Tables(ProfileTables):
    """What samples refer to, written."""

    def __init__(self, request: ExportRequest) -> None:
        super().__init__(request)
        self._encoded: dict[tuple[int, ...], bytes] = {}  # by stack

    def value_type(self, name: str, unit: str) -> bytes:
        """Return a ValueType."""
        return whole(1, self.string(name)) + whole(2, self.string(unit))

    def label(self, key: str, words: str) -> bytes:
        """Return a label of a sample; nothing for no words."""
        if not words:
            return b""
        return message(3, whole(1, self.string(key)) + whole(2, self.string(words)))

    def encoded(self, stack: tuple[int, ...]) -> bytes:
        """Return the locations of a sample."""
        if stack not in self._encoded:
            self._encoded[stack] = packed(1, stack)
        return self._encoded[stack]

    def pieces(self) -> Iterator[bytes]:
        """Return locations, functions, mappings and, last, strings."""
        for number, mapping, addr, lines, _ in self.locations():
            places = b"".join(message(4, wholes(1, line)) for line in lines)
            yield message(_LOCATION, wholes(1, (number, mapping, addr)) + places)
        for function in self.functions():
            yield message(_FUNCTION, wholes(1, function))
        for number, module in self.mappings():
            names = whole(5, self.string(module.path)) + whole(6, self.string(module.build_id))
            # It has names, files, lines and inlined functions: a reader need not look for them.
            has_all = b"".join(whole(each, 1) for each in (7, 8, 9, 10))
            yield message(_MAPPING, wholes(1, (number, *mapped(module))) + names + has_all)
        for words in self.strings:
            yield message(_STRING, words.encode())
