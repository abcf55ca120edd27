"""What Firefox itself writes: rows with a schema, functions as text, processes in processes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from flametap.model import Clock, FrameKind
from foreign_files import error_of, opened, stacks

MS = 1_000_000
FRAMES = {
    "0x1010": ("libxul.so+0x10", FrameKind.UNKNOWN),
    "0x9": ("0x9", FrameKind.UNKNOWN),
    "0x": ("0x", FrameKind.NATIVE),
    "run (in libc.so) + 12": ("run", FrameKind.NATIVE),
    "run (in libd.so) (a.c:1)": ("run", FrameKind.NATIVE),
    "draw (https://a.b/c.js:12:3)[4]": ("draw", FrameKind.JAVASCRIPT),
    "get f (self-hosted:7)": ("get f", FrameKind.JAVASCRIPT),
    "https://a.b/d.js:1:2": ("(root scope) https://a.b/d.js", FrameKind.JAVASCRIPT),
    "js::RunScript": ("js::RunScript", FrameKind.NATIVE),
    "a (b) c": ("a (b) c", FrameKind.NATIVE),
    "": ("", FrameKind.NATIVE),
}


def thread(rows: list[list[Any]], locations: list[str], **more: Any) -> dict[str, Any]:
    count = len(locations)
    return {
        "name": "GeckoMain",
        "tid": 3,
        "pid": 2,
        "processType": "default",
        "samples": {"schema": {"stack": 0, "time": 1, "threadCPUDelta": 3}, "data": rows},
        "frameTable": {"schema": {"location": 0, "line": 2}, "data": [[i] for i in range(count)]},
        "stackTable": {
            "schema": {"prefix": 0, "frame": 1},
            "data": [[i - 1 if i else None, i] for i in range(count)],
        },
        "stringTable": locations,
    } | more


def profile(*threads: dict[str, Any], start: float = 0.0, **more: Any) -> dict[str, Any]:
    units = {"threadCPUDelta": "ns"}
    meta = {"interval": 1, "startTime": start, "product": "Firefox", "sampleUnits": units}
    libs = [{"name": "libxul.so", "start": 0x1000, "end": 0x2000}]
    return {"meta": meta, "libs": libs, "threads": threads, "processes": [], **more}


def test_functions_are_told_by_their_text(tmp_path: Path) -> None:
    data = profile(thread([[len(FRAMES) - 1, 1], [len(FRAMES) - 1, 2]], list(FRAMES)))
    recording = opened(tmp_path, "x", json.dumps(data))
    assert stacks(recording) == {tuple(name for name, _ in FRAMES.values()): 2 * MS}
    found = {(each.name, each.kind) for each in recording.functions}
    assert found >= set(FRAMES.values())
    places = {each.name: (each.module, each.file) for each in recording.functions}
    assert places["draw"] == ("", "https://a.b/c.js")
    assert places["libxul.so+0x10"] == ("libxul.so", "")
    assert {each.module for each in recording.functions if each.name == "run"} == {
        "libc.so",
        "libd.so",
    }


def test_rows_may_be_short_and_other_processes_began_later(tmp_path: Path) -> None:
    own = thread([[0, 0], [0, 10, None, 4 * MS], [None, 20, None, 10 * MS]], ["f"])
    child = profile(thread([[0, 0], [0, 5]], ["g"], pid=9, processType="tab"), start=100)
    recording = opened(tmp_path, "x", json.dumps({"profile": profile(own, processes=[child])}))
    assert stacks(recording) == {("f",): 20 * MS, ("g",): 6 * MS}
    # The child does not say what it used: it ran.
    assert stacks(recording, Clock.CPU) == {("f",): 14 * MS, ("g",): 6 * MS}
    assert recording.status().duration_ns == 106 * MS
    names = {each.name for each in recording.profile.thread_infos()}
    assert names == {"default: GeckoMain", "tab: GeckoMain"}


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"stackTable": {"schema": {"prefix": 0, "frame": 1}, "data": [[0, 0]]}}, "own caller"),
        ({"stackTable": {"schema": {"prefix": -1, "frame": 1}, "data": [[0, 0]]}}, "no place"),
        ({"frameTable": {"schema": {"location": 0}, "data": [[-1]]}}, "no function"),
        ({"frameTable": {"schema": {"location": 0}, "data": [[7]]}}, "makes no sense"),
        ({"stringTable": 5}, "makes no sense"),
        ({"samples": {}}, "makes no sense"),
    ],
)
def test_what_makes_no_sense_is_refused(tmp_path: Path, more: dict[str, Any], why: str) -> None:
    data = profile(thread([[0, 0], [0, 1]], ["f"], **more))
    assert why in error_of(tmp_path, json.dumps(data))
