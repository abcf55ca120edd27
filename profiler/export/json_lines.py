r"""Write JSON Lines: an object in each line, for scripts, ``jq``, DuckDB and logs.

"type" says what a line is. A line comes after those that it refers to, by "id"::

    {"type":"header","format":1,"exporter":…,"name":…,"counted":…,"clock":"cpu","weights":"time",
     "process":…,"pid":…,"started_s":…,"begin_ns":…,"duration_ns":…,"notes":[…],"cost":{…}}
    {"type":"thread","id":1,"tid":4711,"name":"main"}
    {"type":"function","id":0,"name":"work","module":"prog","file":"work.c","line":20,
     "kind":"native"}
    {"type":"stack","id":0,"functions":[2,0]}
    {"type":"time","thread":1,"stack":0,"state":"asleep","wait":"lock","gil":"held",
     "cpu_ns":0,"wall_ns":7000,"off_cpu_ns":7000,"samples":3}

header: the first line. "begin_ns" is since the start of the recording, which was at "started_s",
in seconds since 1970; 0 if that is not known. "clock" is that of the request: it changes no number.
"weights" is "time", or what the file of another profiler counts instead: "samples", "bytes". Each
"time" then has a "weight" and no clocks.

thread: of a recording of several processes, with "pid" and "process", what that runs.

function: "module", "file" and "line" are left out if they are not known. The line is the heaviest
one, or the line that the function stands for if lines are separated. Two functions may have one
name. "kind" is native, inlined, tail call, unknown, python, java, javascript, ruby, syscall,
synthetic (what flametap adds) or folded.

stack: ids of functions, root first.

time: what a thread spent in a stack in one state, by all clocks, in nanoseconds; once for each
combination. "state" is running, asleep or "waiting for a CPU". "wait" is why it sleeps, "gil" what
it does with the interpreter's lock; both are left out for nothing. "samples" is the number of
stacks taken; it is left out of a range of time, of which it is not known. Each number adds up to
that of the call tree by that clock.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, BinaryIO

from ..model import Clock, Thread
from ..version import version
from .folded import ALL
from .json_pieces import encode, text
from .leaf_stacks import NO_FUNCTION, OF_ALL_CLOCKS, FrameKey, LeafStacks
from .request import ExportRequest
from .runs import StackNumbers
from .time_rows import STATES, Int64s, TimeRows, gil_of, time_rows, wait_of

FORMAT_VERSION = 1
_FEW_LINES = 1 << 12  # written at once


def write(request: ExportRequest, file: BinaryIO) -> None:
    """Write a profile as JSON Lines."""
    rows = time_rows(request)
    stacks = LeafStacks(request, OF_ALL_CLOCKS)
    lines: list[bytes] = []
    for each in _objects(request, rows, stacks):
        lines.append(encode(each) + b"\n")
        if len(lines) == _FEW_LINES:
            file.write(b"".join(lines))
            lines.clear()
    file.write(b"".join(lines))


def _objects(
    request: ExportRequest, rows: TimeRows, stacks: LeafStacks
) -> Iterator[dict[str, Any]]:
    yield _header(request)
    used = set(rows.thread_id.tolist())
    for number, thread in request.profile.threads.items():
        if number in used:
            yield {
                "type": "thread",
                "id": number,
                "tid": thread.tid,
                "name": text(thread.name),
                **_process(request, thread),
            }
    numbers: StackNumbers[FrameKey] = StackNumbers(stacks, stacks.keys, NO_FUNCTION)
    ids: dict[tuple[int, ...], int] = {}
    stack_of: dict[tuple[int, int], int] = {}  # by leaf; those that count
    functions = 0
    for leaf in zip(rows.node.tolist(), rows.sysno.tolist(), strict=True):
        if leaf in stack_of:
            continue
        stack = numbers.stack(*leaf)
        if stack is None:
            continue
        for number in range(functions, len(numbers.frames)):
            yield {"type": "function", "id": number, **_function(stacks, numbers.frames[number])}
        functions = len(numbers.frames)
        if stack not in ids:
            ids[stack] = len(ids)
            yield {"type": "stack", "id": ids[stack], "functions": stack}
        stack_of[leaf] = ids[stack]
    yield from _times(rows, _values(request, rows), stack_of)


def _process(request: ExportRequest, thread: Thread) -> dict[str, Any]:
    """Return whose a thread is, in a recording of several processes."""
    if len(request.processes) == 1:
        return {}
    process = request.process_of(thread)
    return {"pid": process.pid, "process": text(process.program)}


def _header(request: ExportRequest) -> dict[str, Any]:
    status = request.status
    begin_ns = request.between_ns[0] or request.profile.start_ns
    return {
        "type": "header",
        "format": FORMAT_VERSION,
        "exporter": f"flametap {version()}",
        "name": text(request.title),
        "counted": [text(each) for each in request.part],
        "clock": request.shown_clock.value,
        "weights": text(request.status.weights) or "time",
        "process": text(status.program or request.program),
        "pid": status.pid,
        "started_s": status.started_s,
        "begin_ns": begin_ns - request.profile.start_ns,
        "duration_ns": request.duration_ns,
        "notes": [text(note) for note in request.notes],
        "cost": request.cost,
    }


def _function(stacks: LeafStacks, key: FrameKey) -> dict[str, Any]:
    if key == NO_FUNCTION:
        return {"name": ALL, "kind": "synthetic"}
    function, (file, line) = stacks.function(key), stacks.place(key)
    found = {
        "name": text(function.name),
        "module": text(function.module),
        "file": text(file),
        "line": line,
        "kind": function.kind.value,
    }
    return {name: value for name, value in found.items() if value or name == "name"}


def _values(request: ExportRequest, rows: TimeRows) -> dict[str, Int64s]:
    """Return the columns of weights by their names; those of clocks that are not known are none."""
    status = request.status
    clocks = {Clock.CPU: rows.cpu_ns, Clock.WALL: rows.wall_ns, Clock.OFF_CPU: rows.off_cpu_ns}
    found = {
        f"{clock.value.replace('-', '_')}_ns": column
        for clock, column in clocks.items()
        if not status.weights and status.has_clock(clock)
    }
    if status.weights:
        found["weight"] = rows.wall_ns
    return found if rows.samples is None else {**found, "samples": rows.samples}


def _times(
    rows: TimeRows, values: dict[str, Int64s], stack_of: dict[tuple[int, int], int]
) -> Iterator[dict[str, Any]]:
    keys = rows.thread_id, rows.node, rows.sysno, rows.state, rows.activity, rows.lock
    columns = [each.tolist() for each in (*keys, *values.values())]
    for thread_id, node, sysno, state, activity, lock, *numbers in zip(*columns, strict=True):
        stack = stack_of.get((node, sysno))
        if stack is None:
            continue
        found: dict[str, Any] = {
            "type": "time",
            "thread": thread_id,
            "stack": stack,
            "state": STATES[state],
        }
        if wait := wait_of(state, activity):
            found["wait"] = wait
        if gil := gil_of(lock):
            found["gil"] = gil
        yield {**found, **dict(zip(values, numbers, strict=True))}
