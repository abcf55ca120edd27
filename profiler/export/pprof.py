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
from collections.abc import Iterable, Iterator, Sequence
from typing import BinaryIO

from ..model import NO_MODULE, Clock, Module, Process
from ..tree.shown_frames import Call
from .json_pieces import text
from .leaf_stacks import OF_ALL_CLOCKS, LeafStacks
from .protobuf import message, packed, whole
from .request import ExportRequest
from .time_rows import STATES, Int64s, TimeRows, gil_of, time_rows, wait_of

# Fields of Profile.
_SAMPLE_TYPE, _SAMPLE, _MAPPING, _LOCATION, _FUNCTION, _STRING = 1, 2, 3, 4, 5, 6
_TIME_NS, _DURATION_NS, _PERIOD_TYPE, _PERIOD, _COMMENT, _DEFAULT_TYPE = 9, 10, 11, 12, 13, 14

_TYPE_OF = {Clock.CPU: "cpu", Clock.WALL: "wall", Clock.OFF_CPU: "off_cpu"}
_NS = "nanoseconds"
_FEW_SAMPLES = 1 << 12  # written at once
_ADDR_MAX = (1 << 64) - 1


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
    begin_ns = request.between_ns[0] or request.profile.start_ns
    yield whole(_TIME_NS, round(status.started_s * 1e9) + begin_ns - request.profile.start_ns)
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
        found.append(message(_SAMPLE, stack + packed(2, numbers) + whose + what))
        if len(found) == _FEW_SAMPLES:
            yield b"".join(found)
            found = []
    yield b"".join(found)


class _Tables:
    """Number what samples refer to, and write it."""

    def __init__(self, request: ExportRequest) -> None:
        self._profile, self._names = request.profile, request.names
        self._leaves = LeafStacks(request, OF_ALL_CLOCKS)
        self._stacks: dict[tuple[int, int], bytes | None] = {}  # by leaf: its locations
        self._locations: dict[Call, int] = {}
        self._functions: dict[tuple[int, int], int] = {}  # by id, and by the file of the line
        self._strings = {"": 0}

    def string(self, words: str) -> int:
        """Return the number of a text."""
        return self._strings.setdefault(text(words), len(self._strings))

    def value_type(self, name: str, unit: str) -> bytes:
        """Return a ValueType."""
        return whole(1, self.string(name)) + whole(2, self.string(unit))

    def label(self, key: str, words: str) -> bytes:
        """Return a label of a sample; nothing for no words."""
        if not words:
            return b""
        return message(3, whole(1, self.string(key)) + whole(2, self.string(words)))

    def stack(self, node: int, sysno: int) -> bytes | None:
        """Return the locations of a leaf, innermost first; None: it does not count."""
        key = node, sysno
        if key not in self._stacks:
            calls = self._leaves.calls(node, sysno)
            self._stacks[key] = None if calls is None else self._stack(calls)
        return self._stacks[key]

    def _stack(self, calls: list[Call]) -> bytes:
        known = self._locations
        return packed(1, [known.setdefault(call, len(known) + 1) for call in reversed(calls)])

    def pieces(self) -> Iterator[bytes]:
        """Return locations, functions, mappings and, last, strings."""
        places = {address: self._leaves.code(address) for address, _ in self._locations}
        modules = self._profile.modules
        # Readers take the first one for the program, which is the first module of a process.
        used = sorted({module_id for module_id, _ in places.values()} - {NO_MODULE})
        mappings = {module_id: number for number, module_id in enumerate(used, 1)}
        for (address, frames), number in self._locations.items():
            module_id, addr = places[address]
            mapping = mappings.get(module_id, 0)
            lines = b"".join(
                message(4, whole(1, self._function(function, file)) + whole(2, line))
                for function, line, file in reversed(frames)
            )
            yield message(_LOCATION, whole(1, number) + whole(2, mapping) + whole(3, addr) + lines)
        files = self._names.line_files
        for (function_id, file), number in self._functions.items():
            function = self._names.functions[function_id]
            names = function.name, function.full_name or function.name, files[file] or function.file
            yield message(
                _FUNCTION, whole(1, number) + _wholes(2, [self.string(each) for each in names])
            )
        for module_id, number in mappings.items():
            yield message(_MAPPING, whole(1, number) + self._mapping(modules[module_id]))
        for words in self._strings:
            yield message(_STRING, words.encode())

    def _function(self, function: int, file: int) -> int:
        return self._functions.setdefault((function, file), len(self._functions) + 1)

    def _mapping(self, module: Module) -> bytes:
        """Return a Mapping. Its offset is that of files whose addresses are their offsets.

        What is loaded where it was linked spans all addresses: readers take these as they are.
        """
        numbers = (module.start, module.end, max(0, module.start - module.load_bias))
        fields = _wholes(2, numbers if module.load_bias else (0, _ADDR_MAX, 0))
        names = whole(5, self.string(module.path)) + whole(6, self.string(module.build_id))
        # It has names, files, lines and inlined functions: a reader need not look for them.
        return fields + names + b"".join(whole(each, 1) for each in (7, 8, 9, 10))


def _wholes(first: int, numbers: Iterable[int]) -> bytes:
    """Return integers as fields one after the other."""
    return b"".join(whole(field, number) for field, number in enumerate(numbers, first))
