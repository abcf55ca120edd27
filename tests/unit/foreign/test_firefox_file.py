"""Profiles for Firefox Profiler: times, CPU use, weights, tables; our own files read again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from flametap.foreign.opening import open_file
from flametap.model import Clock, FrameKind
from foreign_files import error_of, exported, opened, random_recording, stacks
from recording_files import KEPT

MS = 1_000_000
STACKS = {"frame": [0, 1, 2], "prefix": [None, 0, 0]}
TABLES: dict[str, Any] = {
    "stackTable": STACKS,
    "frameTable": {"func": [0, 1, 2], "line": [3, None, None], "inlineDepth": [0, 1, 0]},
    "funcTable": {
        "name": [0, 1, 4],
        "isJS": [False, False, True],
        "resource": [0, 0, -1],
        "fileName": [2, None, None],
        "lineNumber": [None, None, 9],
    },
    "resourceTable": {"name": [3], "lib": [None]},
    "stringArray": ["main", "clamp", "a.c", "prog", "later"],
}


def thread(stack: Any, times: Any = None, **samples: Any) -> dict[str, Any]:
    head = {"name": "t", "tid": 7, "pid": "5", "processName": "prog"}
    timed = {} if times is None else {"time": times}
    return {**head, **TABLES, "samples": {"stack": stack, **timed, **samples}}


def file(*threads: dict[str, Any], **more: Any) -> str:
    units = {"time": "ms", "eventDelay": "ms", "threadCPUDelta": "µs"}
    meta = {"interval": 2, "startTime": 1.7e12, "product": "prog", "sampleUnits": units}
    return json.dumps({"meta": meta, "libs": [], "threads": threads} | more)


def test_a_sample_lasts_until_the_next(tmp_path: Path) -> None:
    recording = opened(tmp_path, "x", file(thread([0, 1, None, 2], [1, 2, 4.5, 7])))
    assert stacks(recording) == {
        ("main",): MS,
        ("main", "clamp"): 2.5 * MS,
        ("main", "later"): 2 * MS,
    }
    status = recording.status()
    assert (status.weights, status.clocks, status.has_moments) == ("time", ["wall"], True)
    assert (status.program, status.pid, status.started_s) == ("prog", 5, 1.7e9)
    (info,) = recording.profile.thread_infos()
    assert (info.name, info.tid) == ("t", 7)
    kinds = {each.name: (each.kind, each.module, each.file) for each in recording.functions}
    assert kinds["main"] == (FrameKind.NATIVE, "prog", "a.c")
    assert kinds["clamp"] == (FrameKind.INLINED, "prog", "")
    assert kinds["later"] == (FrameKind.JAVASCRIPT, "", "")


def test_samples_in_deltas_and_out_of_order(tmp_path: Path) -> None:
    recording = opened(tmp_path, "x", file(thread([0, 1], timeDeltas=[5, 3])))
    assert stacks(recording) == {("main",): 3 * MS, ("main", "clamp"): 2 * MS}
    recording = opened(tmp_path, "x", file(thread([1, 0], [8, 5])))
    assert stacks(recording) == {("main",): 3 * MS, ("main", "clamp"): 2 * MS}


def test_cpu_time_is_that_before_a_sample(tmp_path: Path) -> None:
    used = [999, 250, None, 9000, 0]
    data = file(thread([0, 1, 2, 0, 1], [0, 1, 2, 3, 4], threadCPUDelta=used))
    recording = opened(tmp_path, "x", data)
    assert stacks(recording, Clock.WALL)[("main", "clamp")] == 3 * MS
    # Not known is all, more than there is is all, and nothing is known of the end.
    assert stacks(recording, Clock.CPU) == {
        ("main",): 0.25 * MS,
        ("main", "clamp"): MS,
        ("main", "later"): MS,
    }
    assert stacks(recording, Clock.OFF_CPU) == {("main",): 1.75 * MS, ("main", "clamp"): 2 * MS}
    assert recording.status().clocks == ["cpu", "wall", "off-cpu"]


def test_cycles_are_of_the_fastest_thread(tmp_path: Path) -> None:
    meta = {"interval": 1, "sampleUnits": {"threadCPUDelta": "variable CPU cycles"}}
    fast = thread([0, 1], [0, 1], threadCPUDelta=[0, 4000])
    slow = thread([2, 1], [0, 1], threadCPUDelta=[0, 1000])
    found = stacks(opened(tmp_path, "x", file(fast, slow, meta=meta)), Clock.CPU)
    assert found == {("main",): MS, ("main", "later"): MS // 4}


def test_weights(tmp_path: Path) -> None:
    data = file(thread([0, 1], [0, 9], weight=[1.5, 2], weightType="tracing-ms"))
    assert stacks(opened(tmp_path, "x", data)) == {("main",): 1.5 * MS, ("main", "clamp"): 2 * MS}
    data = file(thread([0, 1], [0, 9], weight=[4, 3], weightType="samples"))
    recording = opened(tmp_path, "x", data)
    assert stacks(recording) == {("main",): 9 * MS, ("main", "clamp"): 2 * MS}
    assert recording.status().samples == 7
    data = file(thread([0, 1], [0, 0], weight=[4, 3], weightType="samples"))
    recording = opened(tmp_path, "x", data)
    assert stacks(recording) == {("main",): 4, ("main", "clamp"): 3}
    assert (recording.status().weights, recording.status().has_moments) == ("samples", False)
    size = thread([0], [0], weight=[4096], weightType="bytes")
    recording = opened(tmp_path, "x", file(size, thread([1, 1], [0, 1])))
    assert (stacks(recording), recording.status().weights) == ({("main",): 4096}, "bytes")
    assert recording.status().notes == ["1 thread with weights in another unit than bytes left out"]


def test_newer_tables(tmp_path: Path) -> None:
    """Shared, with distances to callers, sources, and modules of frames."""
    strings = ["0x2a", "f", "/w/x.py"]
    shared = {
        "stringArray": strings,
        "sources": {"filename": [2]},
        "stackTable": {"frame": [0, 1], "prefixOffset": [0, 1]},
        "frameTable": {"func": [0, 1], "lib": [0, -1]},
        "funcTable": {"name": [0, 1], "source": [None, 0], "lineNumber": [None, 4]},
    }
    head = {"name": "t", "pid": "1", "tid": "9"}
    threads = [{**head, "samples": {"stack": [1, 1], "time": [0, 1]}}]
    data = file(*threads, shared=shared, libs=[{"name": "libc.so.6"}])
    recording = opened(tmp_path, "x", data)
    assert stacks(recording) == {("libc.so.6+0x2a", "f"): 3 * MS}
    assert recording.status().notes == ["1 function without a name: the file has only addresses"]
    kinds = {each.name: each.kind for each in recording.functions}
    assert (kinds["f"], kinds["libc.so.6+0x2a"]) == (FrameKind.PYTHON, FrameKind.UNKNOWN)


def test_threads_of_several_processes_have_its_name(tmp_path: Path) -> None:
    other = thread([1, 1], [0, 1]) | {"pid": "6", "processName": "child"}
    recording = opened(tmp_path, "x", file(thread([0, 0], [0, 1]), other))
    names = {each.name for each in recording.profile.thread_infos()}
    assert names == {"prog: t", "child: t"}
    assert recording.status().pid == 0


@pytest.mark.parametrize("seed", range(3))
def test_our_own_file_has_the_same_tree(tmp_path: Path, seed: int) -> None:
    recording = random_recording(seed)
    for clock in Clock:
        found = open_file(str(exported(recording, tmp_path, "x.json", "firefox", clock)))
        assert stacks(found) == stacks(recording, clock)
    found = open_file(str(exported(recording, tmp_path, "x.json", "firefox", Clock.WALL)))
    threads = {each.tid: each.thread_id for each in found.profile.thread_infos()}
    for each in recording.profile.thread_infos():
        own = stacks(recording, thread=each.thread_id)
        assert stacks(found, thread=threads[each.tid]) == own


@pytest.mark.parametrize("name", ["c", "python"])
def test_our_own_file_has_the_same_clocks(tmp_path: Path, name: str) -> None:
    recording = open_file(str(KEPT / f"{name}.flametap"))
    found = open_file(str(exported(recording, tmp_path, "x.json", "firefox", Clock.WALL)))
    assert {clock: stacks(found, clock) for clock in Clock} == {
        clock: stacks(recording, clock) for clock in Clock
    }


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (file(thread([3], [0])), "a row that is not there"),
        (file(thread([-2], [0])), "a row that is not there"),
        (file(thread([0], [None])), "too large, or none"),
        (file(thread([0, 0], [0, 1e300])), "too large, or none"),
        (file(thread([0, 0], [0])), "different lengths"),
        (file(thread([0, 0], [0, 1], weight=[1, -1])), "negative"),
        (
            file(thread([0, 0], [0, 1]) | {"stackTable": {"frame": [0], "prefix": [0]}}),
            "own caller",
        ),
        (
            file(thread([0, 0], [0, 1]) | {"stackTable": {"frame": [9], "prefix": [None]}}),
            "row that",
        ),
        (file(thread([0, 0], [0, 1]) | {"stringArray": []}), "makes no sense"),
        (file(thread([0, 0], [0, 1]) | {"stringArray": {}}), "makes no sense"),
        (file(thread([None], [0])), "no samples"),
        (file(), "no samples"),
        (file({"samples": 5}), "makes no sense"),
        ('{"meta": {}, "threads": 5}', "makes no sense"),
    ],
)
def test_what_makes_no_sense_is_refused(tmp_path: Path, data: str, why: str) -> None:
    assert why in error_of(tmp_path, data)


def test_deep_stacks_are_cut(tmp_path: Path) -> None:
    count = 100_000
    table = {"frame": [0] * count, "prefix": [None, *range(count - 1)]}
    deep = thread([count - 1, count - 1], [0, 1]) | {"stackTable": table}
    recording = opened(tmp_path, "x", file(deep))
    (path,) = stacks(recording)
    assert len(path) == 2048
    assert "deeper than 2,048" in recording.status().notes[0]
