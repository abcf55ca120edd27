"""Write the processed format of Firefox Profiler: each thread in order of time, with its CPU use.

A sample is an interval of the recording, in one stack; it has the time of its begin. Weights are
milliseconds of the chosen clock; they add up to the total of a thread. A sample without a stack is
where nothing that counts follows at once, so that charts by time end the stack there. The viewer
counts samples instead of weights where it merges threads; so equal neighbours are not joined.
"threadCPUDelta" is the CPU time since the sample before; there is none where running threads do not
count. If weights are numbers of stacks instead, samples have no order, and all the same time.

Losses and doubts, and the cost of the recording, are below "Profile Info", "Show more" in the
viewer.

The file is written piece by piece: threads first, then the tables that they refer to. The order of
keys does not matter in JSON.

Source: src/types/profile.ts and docs-developer/CHANGELOG-formats.md of Firefox Profiler, version 70
of the format. The viewer reads old versions for ever.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from ..model import Clock, Thread
from ..recording.profile.leaves import LeafWeights
from ..recording.profile.roster import MORE_THREADS
from ..recording.profile.row_layout import one_after_another
from ..recording.profile.timelines import Timelines
from ..version import version
from .firefox_tables import CATEGORIES, Tables
from .json_pieces import encode, text, write_numbers
from .leaf_stacks import LeafStacks, leaves_of, threads_with_weight
from .request import ExportRequest

FORMAT_VERSION = 70
_GECKO_VERSION = 36  # of the browser's own format, which this one was made from
_NS_PER_MS = 1e6
_TIME_DECIMALS = 3  # of milliseconds
_LEAST_GAP_NS = 2_000  # start times may be rounded by half of this
_NO_STACK = -1
_USUAL_RATE_HZ = 100.0
_VISIBLE_THREADS = 15  # the viewer's own choice goes by CPU time alone
_NO_MARKERS: dict[str, Any] = {
    **{name: [] for name in ("data", "name", "startTime", "endTime", "phase", "category")},
    "length": 0,
}

Int64s = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class _Samples:
    """The samples of a thread, in columns; ``stack`` is -1 where it has none."""

    time_ms: Floats
    stack: Int64s
    weight: Int64s | Floats
    weight_type: str
    cpu_ns: Int64s | None  # since the sample before


def write(request: ExportRequest, file: BinaryIO) -> None:
    """Write a profile for Firefox Profiler."""
    leaves = leaves_of(request, request.selection.thread_ids)
    counted = request.counted
    samples_of = _Counted(leaves, counted) if counted else _Timed(request)
    tables = Tables(LeafStacks(request))
    threads, weights = threads_with_weight(
        request, leaves, lambda node, sysno: tables.stack(node, sysno) != _NO_STACK
    )
    start_ms, end_ms = _range_ms(request)
    file.write(b'{"libs":[],"threads":[')
    for i, thread in enumerate(threads):
        samples = samples_of(thread.thread_id, tables)
        end_ms = max(end_ms, float(samples.time_ms.max(initial=0)) + 10**-_TIME_DECIMALS)
        file.write(b"," if i else b"")
        _write_thread(request, thread, samples, file)
    file.write(b'],"shared":')
    tables.write(file)
    heaviest = sorted(range(len(threads)), key=lambda i: -weights[i])
    meta = {
        **_meta(request),
        "profilingStartTime": start_ms,
        "profilingEndTime": end_ms,
        "initialSelectedThreads": heaviest[:1],
        "initialVisibleThreads": sorted(heaviest[:_VISIBLE_THREADS]),
        "usesOnlyOneStackType": not tables.has_javascript,
    }
    file.write(b',"meta":' + encode(meta) + b"}")


def _range_ms(request: ExportRequest) -> tuple[float, float]:
    """Return begin and end of what is written, since the recording's start."""
    t0_ns, t1_ns = request.between_ns
    start_ns, duration_ns = request.profile.start_ns, request.profile.duration_ns
    begin_ns = 0 if t0_ns is None else t0_ns - start_ns
    end_ns = duration_ns if t1_ns is None else min(duration_ns, t1_ns - start_ns)
    return begin_ns / _NS_PER_MS, max(begin_ns, end_ns) / _NS_PER_MS


def _meta(request: ExportRequest) -> dict[str, Any]:
    status = request.status
    rate_hz = status.effective_rate_hz or status.rate_hz
    facts = [("counted", request.what)]
    facts += [(f"note {i}", note) for i, note in enumerate(request.notes, 1)]
    facts += [(name, str(value)) for name, value in request.cost.items()]
    entries = [{"label": name, "format": "string", "value": text(each)} for name, each in facts]
    return {
        "interval": 1000 / (rate_hz or _USUAL_RATE_HZ),
        "startTime": 1000 * status.started_s,
        "processType": 0,
        "product": _program(request),
        "arguments": text(status.command),
        "importedFrom": f"flametap {version()}",
        "stackwalk": 1,
        "version": _GECKO_VERSION,
        "preprocessedProfileVersion": FORMAT_VERSION,
        "categories": CATEGORIES,
        "markerSchema": [],
        "platform": "Linux",
        "sampleUnits": {"time": "ms", "eventDelay": "ms", "threadCPUDelta": "ns"},
        "symbolicated": True,
        "symbolicationNotSupported": True,
        "sourceCodeIsNotOnSearchfox": True,
        "extra": [{"label": "flametap", "entries": entries}],
    }


def _program(request: ExportRequest) -> str:
    program = request.status.program
    return text(program or request.program or request.title)


class _Timed:
    """Make the samples of threads from the intervals of a recording."""

    def __init__(self, request: ExportRequest) -> None:
        selection = request.selection
        self._clock, only_gil = selection.clock, selection.frames.only_gil
        knows_cpu = request.status.has_clock(Clock.CPU)
        self._has_cpu = knows_cpu and self._clock is not Clock.OFF_CPU and not only_gil
        self._start_ns = request.profile.start_ns
        self._timelines: Timelines = request.profile.timelines(
            self._clock, *request.between_ns, holding=only_gil
        )

    def __call__(self, thread_id: int, tables: Tables) -> _Samples:
        blocks = list(self._timelines.timed(thread_id))
        nothing = np.empty(0, np.int64)
        begin = np.concatenate([nothing, *(each.begin_ns for each in blocks)])
        weight = np.concatenate([nothing, *(each.leaves.weight for each in blocks)])
        cpu = np.concatenate([nothing, *(each.cpu_ns for each in blocks)])
        stack = np.concatenate([nothing, *(_stacks(each.leaves, tables) for each in blocks)])
        if thread_id != MORE_THREADS.thread_id:  # which stands for many at once
            begin = one_after_another(begin + weight, weight)
        end = begin + weight
        # A thread seldom sampled may have used little CPU time until the next row.
        least_gap = weight[:-1] if self._clock is Clock.CPU else _LEAST_GAP_NS
        gaps = np.flatnonzero(np.append(begin[1:] - end[:-1] > least_gap, True)[: len(end)])
        weight[stack == _NO_STACK] = 0
        after = gaps + 1
        time_ns = np.maximum(np.insert(begin, after, end[gaps]) - self._start_ns, 0)
        return _Samples(
            (time_ns / _NS_PER_MS).round(_TIME_DECIMALS),
            np.insert(stack, after, _NO_STACK),
            np.insert(weight, after, 0) / _NS_PER_MS,
            "tracing-ms",
            np.append(0, np.insert(cpu, after, 0))[:-1] if self._has_cpu else None,
        )


class _Counted:
    """Make the samples of threads from the numbers of stacks, or of whatever is counted."""

    def __init__(self, leaves: LeafWeights, counted: str) -> None:
        self._type = "bytes" if counted == "bytes" else "samples"
        self._leaves = leaves.take(np.argsort(leaves.thread_id, kind="stable"))

    def __call__(self, thread_id: int, tables: Tables) -> _Samples:
        first, end = np.searchsorted(self._leaves.thread_id, (thread_id, thread_id + 1))
        own = self._leaves.take(slice(int(first), int(end)))
        stack = _stacks(own, tables)
        weight = np.where(stack == _NO_STACK, 0, own.weight)
        return _Samples(np.zeros(len(stack)), stack, weight, self._type, None)


def _stacks(leaves: LeafWeights, tables: Tables) -> Int64s:
    """Return the number of the stack of each leaf."""
    key = leaves.node.astype(np.int64) << 16 | leaves.sysno.astype(np.int64) & 0xFFFF
    _, first, of_each = np.unique(key, return_index=True, return_inverse=True)
    pairs = zip(leaves.node[first].tolist(), leaves.sysno[first].tolist(), strict=True)
    numbers = np.array([tables.stack(node, sysno) for node, sysno in pairs], np.int64)
    return numbers[of_each]


def _write_thread(
    request: ExportRequest, thread: Thread, samples: _Samples, file: BinaryIO
) -> None:
    process = request.process_of(thread)
    pid = process.pid
    begin_ms = (thread.first_seen_ns - request.profile.start_ns) / _NS_PER_MS
    head = {
        "processType": "default",
        "processName": text(process.program) or _program(request),
        "processStartupTime": 0,
        "processShutdownTime": None,
        "registerTime": max(0.0, begin_ms),
        "unregisterTime": None,
        "pausedRanges": [],
        "name": text(thread.name),
        "isMainThread": thread.tid == pid,
        "pid": str(pid),
        "tid": thread.tid,
        "markers": _NO_MARKERS,
    }
    file.write(encode(head)[:-1] + b',"samples":{"stack":')
    write_numbers(samples.stack, file, missing=_NO_STACK)
    for name, values in (
        ("time", samples.time_ms),
        ("weight", samples.weight),
        ("threadCPUDelta", samples.cpu_ns),
    ):
        if values is not None:
            file.write(b"," + encode(name) + b":")
            write_numbers(values, file)
    rest = {"weightType": samples.weight_type, "length": len(samples.stack)}
    file.write(b"," + encode(rest)[1:] + b"}")
