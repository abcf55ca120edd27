"""Trace events: slices within each other, pairs, names, and CPU profiles among them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from flametap.model import FrameKind
from foreign_files import cpu_node as node
from foreign_files import error_of, opened, stacks

US = 1_000


def event(phase: str, name: str, ts: Any, **more: Any) -> dict[str, Any]:
    return {"ph": phase, "name": name, "ts": ts, "pid": 1, "tid": 2, **more}


def full(name: str, ts: Any, dur: float, **more: Any) -> dict[str, Any]:
    return event("X", name, ts, dur=dur, **more)


def named(what: str, name: str, **more: Any) -> dict[str, Any]:
    return event("M", what, 0, args={"name": name}, **more)


def test_slices_are_stacks_by_what_they_contain(tmp_path: Path) -> None:
    data = [
        full("b", 10, 5),
        full("a", 10, 20),
        full("c", 15, 15),
        full("d", 40, 1),
        full("e", 16, 0),
    ]
    recording = opened(tmp_path, "x", json.dumps({"traceEvents": data}))
    assert stacks(recording) == {("a", "b"): 5 * US, ("a", "c"): 15 * US, ("d",): US}
    status = recording.status()
    assert (status.source, status.weights, status.has_moments) == ("trace events", "time", True)
    assert (status.duration_ns, status.notes) == (31 * US, [])


def test_pairs(tmp_path: Path) -> None:
    data = [
        event("E", "early", 0),
        event("B", "a", 1),
        event("B", "b", 1),
        event("E", "b", 4),
        event("B", "b", 4),
        event("E", "", 5),
        event("E", "other", 5),
        event("B", "open", 6),
        event("E", "a", 9),  # and all within it
        event("B", "last", 10),
        full("x", 11, 4),
    ]
    recording = opened(tmp_path, "x", json.dumps(data))
    assert stacks(recording) == {
        ("a", "b"): 4 * US,
        ("a",): US,
        ("a", "open"): 3 * US,
        ("last",): US,
        ("last", "x"): 4 * US,
    }
    assert recording.status().notes == ["1 slice without an end: shown to the last event"]


def test_equal_pairs_are_within_each_other_as_they_begin(tmp_path: Path) -> None:
    data = [event("B", "a", 1), event("B", "b", 1), event("E", "b", 4), event("E", "a", 4)]
    assert stacks(opened(tmp_path, "x", json.dumps(data))) == {("a", "b"): 3 * US}


def test_a_slice_is_cut_where_the_outer_one_ends(tmp_path: Path) -> None:
    recording = opened(tmp_path, "x", json.dumps([full("a", 0, 10), full("b", 5, 10)]))
    assert stacks(recording) == {("a",): 5 * US, ("a", "b"): 5 * US}
    assert recording.status().notes == ["1 slice overlapping the end of an outer one: cut there"]
    rounded = [full("a", 0, 10), full("b", 5, 5.4)]
    assert not opened(tmp_path, "x", json.dumps(rounded)).status().notes


def test_names_and_places(tmp_path: Path) -> None:
    data = [
        named("thread_name", "main"),
        named("process_name", "prog"),
        full("work (/w/a.py:7)", 0, 5),
        full("calls (a lot)", 0, 4),
        full("inner", 0, 1, args={"filename": "/w/b.py", "line": 3}),
        full("other", 0, 1, tid=140642546277248),
        full("more", 0, 1, pid=9, tid=3),
        *(event(phase, "no", 1) for phase in "iCbensftPNOD"),
    ]
    recording = opened(tmp_path, "x", json.dumps(data))
    assert stacks(recording) == {
        ("work",): US,
        ("work", "calls (a lot)"): 3 * US,
        ("work", "calls (a lot)", "inner"): US,
        ("other",): US,
        ("more",): US,
    }
    threads = {(each.name, each.tid) for each in recording.profile.thread_infos()}
    assert threads == {("prog: main", 2), ("prog: thread 140642546277248", 0), ("process 9", 3)}
    kinds = {each.name: (each.file, each.kind) for each in recording.functions}
    assert kinds["work"] == ("/w/a.py", FrameKind.PYTHON)
    assert kinds["inner"] == ("/w/b.py", FrameKind.PYTHON)


def test_a_list_without_an_end(tmp_path: Path) -> None:
    whole = json.dumps([full("a", 0, 1), full("b", 2, 1)])
    for text in (whole[:-1], whole[:-1] + ",\n"):
        assert stacks(opened(tmp_path, "x", text)) == {("a",): US, ("b",): US}
    assert "at character" in error_of(tmp_path, whole[:-2])


def test_cpu_profiles_are_shown_alone(tmp_path: Path) -> None:
    def piece(ts: float, deltas: list[int], samples: list[int], *nodes: Any) -> dict[str, Any]:
        data = {"cpuProfile": {"nodes": nodes, "samples": samples}, "timeDeltas": deltas}
        return event("P", "ProfileChunk", ts, id="0x1", tid=77, args={"data": data})

    begin = event("P", "Profile", 5, id="0x1", args={"data": {"startTime": 100}})
    end = event("P", "ProfileChunk", 99, id="0x1", args={"data": {"endTime": 400}})
    first = piece(6, [10, 20], [2, 2], node(1, "(root)"), node(2, "f", "a.js", 3, parent=1))
    second = piece(7, [30], [3], node(3, "g", parent=2))
    data = [full("slice", 0, 9), second, end, begin, first, named("thread_name", "Main")]
    recording = opened(tmp_path, "x", json.dumps({"traceEvents": data}))
    assert stacks(recording) == {("f",): 50 * US, ("f", "g"): 25 * US}
    (info,) = recording.profile.thread_infos()
    assert (info.name, info.tid) == ("Main", 2)
    assert recording.status().notes == ["only the CPU profiles of the trace are shown"]
    profile = {"nodes": [node(1, "f")], "samples": [1, 1], "timeDeltas": [1, 2], "startTime": 0}
    old = event("I", "CpuProfile", 1, args={"data": {"cpuProfile": profile}})
    assert stacks(opened(tmp_path, "x", json.dumps([old]))) == {("f",): 4 * US}


@pytest.mark.parametrize(
    ("data", "why"),
    [
        ([full("a", 0, -1)], "ends before it begins"),
        ([full("a", 0, 1e300)], "too large"),
        ([full("a", "nan", 1)], "too large"),
        ([full("a", -1e300, 1)], "too large"),
        ([full("a", None, 1)], "makes no sense"),
        ([full("a", 0, 1, pid=[])], "makes no sense"),
        ([full("a", 0, 0)], "no samples"),
        ([event("i", "a", 0)], "no samples"),
        ([full("a", 0, 1), 5], "makes no sense"),
        ({"traceEvents": [[]]}, "makes no sense"),
        ({"traceEvents": []}, "no samples"),
    ],
)
def test_what_makes_no_sense_is_refused(tmp_path: Path, data: Any, why: str) -> None:
    assert why in error_of(tmp_path, json.dumps(data))


def test_many_slices_within_each_other(tmp_path: Path) -> None:
    count = 5_000
    deep = [full("a", i, 2 * count - 2 * i) for i in range(count)]
    recording = opened(tmp_path, "x", json.dumps(deep))
    (info,) = recording.profile.thread_infos()
    assert info.wall_ns == 2 * count * US
    late = [full("a", i, count) for i in range(count)]
    assert "overlapping" in opened(tmp_path, "x", json.dumps(late)).status().notes[0]
