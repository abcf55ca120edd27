"""Write the processed format of Firefox Profiler: each thread in order of time, with its CPU use.

A sample is an interval of the recording, in one stack; it has the time of its begin. Weights are
milliseconds of the chosen clock; they add up to the total of a thread. A sample without a stack is
where nothing that counts follows at once, so that charts by time end the stack there.
"threadCPUDelta" is the CPU time since the sample before, whatever the clock. The viewer counts
samples instead of weights where it merges threads; so equal neighbours are not joined. If weights
are numbers of stacks instead, a thread has one sample per stack, all at the same time.

Losses and doubts, and the cost of the recording, are below "Profile info" in the viewer.

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

from .. import __version__
from ..model import Thread
from ..profile.leaves import LeafWeights
from ..profile.timelines import Timelines
from .firefox_tables import CATEGORIES, Tables
from .json_pieces import encode, text, write_numbers
from .leaf_stacks import LeafStacks, leaves_of, threads_with_weight
from .request import ExportRequest

FORMAT_VERSION = 70
_GECKO_VERSION = 36  # of the browser's own format, which this one was made from
_NS_PER_MS = 1e6
_TIME_DECIMALS = 3  # of milliseconds
_NO_STACK = -1
_USUAL_RATE_HZ = 100.0
_NO_MARKERS: dict[str, Any] = {
    **{name: [] for name in ("data", "name", "startTime", "endTime", "phase", "category")},
    "length": 0,
}

Int64s = npt.NDArray[np.int64]


def write(request: ExportRequest, file: BinaryIO) -> None:
    """Write a profile for Firefox Profiler."""
    selection = request.selection
    leaves = leaves_of(request, selection.thread_ids)
    timelines = request.profile.timelines(
        selection.clock, *request.between_ns, holding=selection.frames.only_gil
    )
    stacks = LeafStacks(request)
    threads, heaviest = threads_with_weight(request, leaves, stacks)
    tables = Tables(stacks)
    file.write(b'{"libs":[],"threads":[')
    for i, thread in enumerate(threads):
        if request.counts_samples:
            columns = _counted(leaves.where(leaves.thread_id == thread.thread_id), tables)
        else:
            columns = _timed(request, timelines, thread.thread_id, tables)
        file.write(b"," if i else b"")
        _write_thread(request, thread, columns, file)
    file.write(b'],"shared":')
    tables.write(file)
    meta = {
        **_meta(request),
        "initialSelectedThreads": [heaviest] if threads else [],
        "usesOnlyOneStackType": not tables.has_javascript,
    }
    file.write(b',"meta":' + encode(meta) + b"}")


def _meta(request: ExportRequest) -> dict[str, Any]:
    status = request.status
    rate_hz = status.effective_rate_hz or status.rate_hz if status else 0.0
    facts = [("counted", request.what), *(("note", note) for note in request.notes)]
    facts += [(name, str(value)) for name, value in request.cost.items()]
    entries = [{"label": name, "format": "string", "value": text(each)} for name, each in facts]
    return {
        "interval": 1000 / (rate_hz or _USUAL_RATE_HZ),
        "startTime": 1000 * status.started_s if status else 0,
        "profilingStartTime": 0,
        "profilingEndTime": request.profile.duration_ns / _NS_PER_MS,
        "processType": 0,
        "product": text(request.program or request.title),
        "arguments": text(status.command if status else ""),
        "importedFrom": f"flametap {__version__}",
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


@dataclass(frozen=True)
class _Columns:
    """The samples of a thread; ``stack`` is -1 where it has none."""

    time_ms: list[float]
    stack: npt.NDArray[np.int64]
    weight: list[float]
    weight_type: str
    cpu_ns: list[int]


def _timed(
    request: ExportRequest, timelines: Timelines, thread_id: int, tables: Tables
) -> _Columns:
    blocks = list(timelines.timed(thread_id))
    begin = np.concatenate([each.begin_ns for each in blocks])
    weight = np.concatenate([each.leaves.weight for each in blocks])
    cpu = np.concatenate([each.cpu_ns for each in blocks])
    stack = np.concatenate([_stacks(each.leaves, tables) for each in blocks])
    begin, end = _one_after_another(begin, weight)
    # A thread seldom sampled may have used little CPU time until the next row.
    gaps = np.flatnonzero(np.append(begin[1:] - end[:-1] > weight[:-1], True))
    weight[stack == _NO_STACK] = 0
    after = gaps + 1
    cpu_since = np.insert(cpu, after, 0)  # what was used in a row counts at the next
    cpu_since = np.append(0, cpu_since[:-1])
    time_ns = np.insert(begin, after, end[gaps]) - request.profile.start_ns
    return _Columns(
        (time_ns / _NS_PER_MS).round(_TIME_DECIMALS).tolist(),
        np.insert(stack, after, _NO_STACK),
        (np.insert(weight, after, 0) / _NS_PER_MS).tolist(),
        "tracing-ms",
        cpu_since.tolist(),
    )


def _one_after_another(begin: Int64s, span: Int64s) -> tuple[Int64s, Int64s]:
    """Return begin and end of rows, some of which are moved so that none overlap.

    How long a thread waited for a CPU is known, but not exactly when.
    """
    total = np.cumsum(span)
    end = total + np.maximum.accumulate(begin - (total - span))
    return end - span, end


def _counted(leaves: LeafWeights, tables: Tables) -> _Columns:
    stack = _stacks(leaves, tables)
    weight = np.where(stack == _NO_STACK, 0, leaves.weight)
    nothing = [0] * len(stack)
    return _Columns([0.0] * len(stack), stack, weight.tolist(), "samples", nothing)


def _stacks(leaves: LeafWeights, tables: Tables) -> Int64s:
    """Return the number of the stack of each leaf."""
    key = leaves.node.astype(np.int64) << 16 | leaves.sysno.astype(np.int64) & 0xFFFF
    _, first, of_each = np.unique(key, return_index=True, return_inverse=True)
    pairs = zip(leaves.node[first].tolist(), leaves.sysno[first].tolist(), strict=True)
    numbers = np.array([tables.stack(node, sysno) for node, sysno in pairs], np.int64)
    return numbers[of_each]


def _write_thread(
    request: ExportRequest, thread: Thread, columns: _Columns, file: BinaryIO
) -> None:
    pid = request.status.pid if request.status else 0
    begin_ms = (thread.first_seen_ns - request.profile.start_ns) / _NS_PER_MS
    head = {
        "processType": "default",
        "processName": text(request.program or request.title),
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
    write_numbers([None if each < 0 else each for each in columns.stack.tolist()], file)
    for name, values in (
        ("time", columns.time_ms),
        ("weight", columns.weight),
        ("threadCPUDelta", columns.cpu_ns),
    ):
        file.write(b"," + encode(name) + b":")
        write_numbers(values, file)
    rest = {"weightType": columns.weight_type, "length": len(columns.time_ms)}
    file.write(b"," + encode(rest)[1:] + b"}")
