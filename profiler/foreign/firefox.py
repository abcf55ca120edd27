"""Read profiles for Firefox Profiler: of samply, Tachyon, Vernier, our own, and many others.

A sample lasts until the next one of its thread, the last one for an interval of sampling: so the
viewer's stack chart and its "traced time" have it. CPU time is given since the sample before, thus
it is that of the sample before; where it is not known, the viewer takes a thread for running.
Weights in milliseconds stand for the times. Those of type "samples" are numbers of stacks; they are
shown where there are no times. Time without a stack is left out.

``firefox_tables`` reads functions and stacks, ``gecko`` the form that the browser itself writes.

Source: src/types/profile.ts, src/profile-logic/call-tree.ts, cpu.ts and stack-timing.ts of Firefox
Profiler, version 70 of the format.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ..model import Clock, ThreadState
from ..recording.figures import counted
from ..recording.recording import Recording
from .builder import Builder, Known
from .columns import Floats, Int64s, floats, tid_of, whole
from .firefox_tables import Strings, Tables, strings_of
from .gecko import as_processed

_NS_PER_MS = 1e6
_MS_PER_S = 1e3
_DATES_MS = 1e12, 1e13  # from 2001 to 2286
_CPU_UNITS_PER_MS = {"µs": 1e3, "us": 1e3, "ns": 1e6}
_CYCLES = "variable CPU cycles"
_TIME, _SAMPLES, _BYTES = "time", "samples", "bytes"
_USUAL_INTERVAL_MS = 1.0


@dataclass(frozen=True)
class _Samples:
    """The samples of a thread in columns, in order of time; CPU use is NaN if not known."""

    node: Int64s
    has_stack: npt.NDArray[np.bool_]
    time_ms: Floats
    weight: Floats | None
    weight_type: str
    cpu: Floats | None  # since the sample before

    def kind(self, *, has_times: bool) -> str:
        """Return what the weights are."""
        if self.weight_type == _BYTES:
            return _BYTES
        return _TIME if has_times or self.weight_type == "tracing-ms" else _SAMPLES


def matches(data: Any) -> bool:
    """Tell whether what a JSON file has in it is of this format."""
    if not isinstance(data, dict):
        return False
    found = data.get("profile", data)
    return isinstance(found, dict) and isinstance(found.get("meta"), dict) and "threads" in found


def read(data: dict[str, Any], builder: Builder) -> Recording:
    """Return the recording of a file. Raises InputError, or whatever impossible contents raise."""
    profile = as_processed(data.get("profile", data))
    meta = profile["meta"]
    threads, tables = [], _tables_of(profile, builder)
    processes = {str(thread.get("pid")) for thread in profile["threads"]}
    for number, (thread, table) in enumerate(zip(profile["threads"], tables, strict=True)):
        samples = _samples(thread, table)
        if bool(samples.has_stack.any()):
            name = _name(thread, with_process=len(processes) > 1)
            threads.append((builder.thread(number, name, tid_of(thread.get("tid"))), samples))
    all_times = np.concatenate([np.empty(0), *(samples.time_ms for _, samples in threads)])
    start_ms = float(all_times.min()) if len(all_times) else 0.0
    has_times = bool(len(all_times)) and float(all_times.max()) > start_ms
    kinds = [samples.kind(has_times=has_times) for _, samples in threads]
    kind = kinds[0] if kinds else _TIME
    wanted = [each for each, its in zip(threads, kinds, strict=True) if its == kind]
    per_ms = _cpu_per_ms(meta, [samples for _, samples in wanted]) if kind == _TIME else 0.0
    for thread, samples in wanted:
        if kind == _TIME:
            _add_times(builder, thread, samples, start_ms, _interval_ms(meta), per_ms)
        else:
            weight = np.ones(len(samples.node)) if samples.weight is None else samples.weight
            some = samples.has_stack
            builder.add(thread, samples.node[some], whole(weight[some]))
    known = _known(meta, kind, processes, has_cpu=per_ms > 0, is_timed=has_times)
    if len(wanted) < len(threads):
        left = counted(len(threads) - len(wanted), "thread")
        known.notes.append(f"{left} with weights in another unit than {kind} left out")
    if nameless := sum(table.n_nameless for table in {id(each): each for each in tables}.values()):
        functions = counted(nameless, "function")
        known.notes.append(f"{functions} without a name: the file has only addresses")
    return builder.finish(known)


def _tables_of(profile: dict[str, Any], builder: Builder) -> list[Tables]:
    """Return the tables of each thread: one for all in newer files."""
    shared = profile.get("shared") or {}
    libs = profile.get("libs") or []
    strings = strings_of(shared)
    common = Tables(builder, shared, shared, strings, libs) if "stackTable" in shared else None
    return [
        common or _own_tables(builder, each, shared, strings, libs) for each in profile["threads"]
    ]


def _own_tables(
    builder: Builder,
    thread: dict[str, Any],
    shared: dict[str, Any],
    strings: Strings,
    libs: list[Any],
) -> Tables:
    own = strings_of(thread)
    return Tables(builder, thread, shared, own or strings, thread.get("libs") or libs)


def _name(thread: dict[str, Any], *, with_process: bool) -> str:
    name = str(thread.get("name") or "")
    process = str(thread.get("processName") or thread.get("processType") or "")
    return f"{process}: {name}" if with_process and process else name


def _samples(thread: dict[str, Any], tables: Tables) -> _Samples:
    samples = thread["samples"]
    row = tables.rows(samples["stack"])
    if samples.get("time") is not None:
        time_ms = floats(samples["time"])
    elif samples.get("timeDeltas") is not None:
        time_ms = np.cumsum(floats(samples["timeDeltas"]))
    else:
        time_ms = np.zeros(len(row))
    weight, cpu = (
        None if samples.get(name) is None else floats(samples[name])
        for name in ("weight", "threadCPUDelta")
    )
    if len({len(each) for each in (row, time_ms, weight, cpu) if each is not None}) > 1:
        raise ValueError("the samples of a thread have columns of different lengths")
    if cpu is not None and bool(np.isnan(cpu).all()):
        cpu = None
    has_stack = row >= 0
    node = np.zeros(len(row), np.int64)
    node[has_stack] = tables.nodes(row[has_stack])
    weight_type = str(samples.get("weightType") or _SAMPLES)
    whole(time_ms, _NS_PER_MS)  # no NaN is in it
    if bool((np.diff(time_ms) < 0).any()):
        order = np.argsort(time_ms, kind="stable")
        node, has_stack, time_ms = node[order], has_stack[order], time_ms[order]
        weight, cpu = (None if each is None else each[order] for each in (weight, cpu))
    return _Samples(node, has_stack, time_ms, weight, weight_type, cpu)


def _interval_ms(meta: dict[str, Any]) -> float:
    found = meta.get("interval")
    return float(found) if isinstance(found, int | float) and found > 0 else _USUAL_INTERVAL_MS


def _cpu_per_ms(meta: dict[str, Any], threads: Sequence[_Samples]) -> float:
    """Return how many units of CPU time a running thread uses in a millisecond; 0: not known."""
    unit = (meta.get("sampleUnits") or {}).get("threadCPUDelta")
    if not any(samples.cpu is not None for samples in threads):
        return 0.0
    if unit == _CYCLES:  # as the viewer does: the fastest runs all the time
        return max(_rates(threads), default=0.0)
    return _CPU_UNITS_PER_MS.get(str(unit), 0.0)


def _rates(threads: Sequence[_Samples]) -> Iterator[float]:
    for samples in threads:
        if samples.cpu is not None:
            used, spans = samples.cpu[1:], np.diff(samples.time_ms)
            is_known = (spans > 0) & ~np.isnan(used)
            yield float((used[is_known] / spans[is_known]).max(initial=0.0))


def _add_times(
    builder: Builder,
    thread: int,
    samples: _Samples,
    start_ms: float,
    interval_ms: float,
    cpu_per_ms: float,
) -> None:
    t0 = whole(samples.time_ms - start_ms, _NS_PER_MS)
    wall = np.append(np.diff(t0), whole(np.array([interval_ms]), _NS_PER_MS))
    counts = np.ones(len(t0), np.int64)
    if samples.weight is not None:
        if samples.weight_type == "tracing-ms":
            wall = whole(samples.weight, _NS_PER_MS)
        else:
            counts = whole(samples.weight)
    some = samples.has_stack
    if not cpu_per_ms:
        node, t0, wall, counts = samples.node[some], t0[some], wall[some], counts[some]
        builder.add(thread, node, wall, t0=t0, samples=counts)
        return
    cpu = wall
    if samples.cpu is not None:
        # What follows the last sample is not known.
        used = np.append(samples.cpu[1:], 0.0) * (_NS_PER_MS / cpu_per_ms)
        cpu = whole(np.where(np.isnan(used), wall, np.clip(used, 0, wall)))
    for state, rows in (
        (ThreadState.RUNNING, some & (cpu > 0)),
        (ThreadState.BLOCKED, some & (cpu <= 0)),
    ):
        builder.add(
            thread,
            samples.node[rows],
            wall[rows],
            t0=t0[rows],
            cpu=cpu[rows],
            samples=counts[rows],
            state=state,
        )


def _known(
    meta: dict[str, Any], kind: str, processes: set[str], *, has_cpu: bool, is_timed: bool
) -> Known:
    writer = str(meta.get("importedFrom") or "")
    start_ms = meta.get("startTime")
    if not isinstance(start_ms, int | float) or not _DATES_MS[0] < start_ms < _DATES_MS[1]:
        start_ms = 0.0  # some count from the start of the machine
    return Known(
        f"Firefox Profiler, by {writer}" if writer else "Firefox Profiler",
        (Clock.CPU, Clock.WALL, Clock.OFF_CPU) if has_cpu else (Clock.WALL,),
        weights="" if has_cpu else kind,
        has_moments=kind == _TIME and is_timed,
        program=str(meta.get("product") or ""),
        pid=tid_of(next(iter(processes))) if len(processes) == 1 else 0,
        started_s=start_ms / _MS_PER_S,
    )
