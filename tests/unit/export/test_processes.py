"""Files of a recording of several processes say which process each thread is of."""

from __future__ import annotations

import io
import json
import sqlite3
from pathlib import Path

import pytest

import wire
from flametap.export import chrome, firefox, json_lines, perf_script, pprof, sqlite
from flametap.export.request import ExportRequest
from flametap.recording.recording import Recording
from pprof_file import PprofFile
from several import Several


@pytest.fixture
def request_of_two() -> ExportRequest:
    several = Several()
    for process in (0, 1):
        several.send(
            process,
            2_000_000,
            modules=[wire.module(1, "/opt/worker")],
            threads=[
                wire.thread(1, 100 + process, "worker"),
                wire.thread(2, 300 + process, "pool"),
            ],
            traces=[wire.trace(1, [wire.frame(1, 0x10)])],
            intervals=[wire.interval(each, 1, 1_000_000, 500_000, 500_000) for each in (1, 2)],
        )
    return ExportRequest(Recording(several.profile, several.names))


WHOSE = {100: 100, 300: 100, 101: 101, 301: 101}  # tid → pid


def test_chrome(request_of_two: ExportRequest) -> None:
    file = io.BytesIO()
    chrome.write(request_of_two, file)
    events = json.loads(file.getvalue())["traceEvents"]
    named = {each["pid"] for each in events if each["name"] == "process_name"}
    assert named == {100, 101}
    assert {each["tid"]: each["pid"] for each in events if each["tid"]} == WHOSE


def test_perf_script(request_of_two: ExportRequest) -> None:
    file = io.BytesIO()
    perf_script.write(request_of_two, file)
    heads = [line.split()[:2] for line in file.getvalue().decode().split("\n") if " cpu" in line]
    found = sorted(
        (name, *map(int, numbers.split("/"))) for name, numbers in heads if "/" in numbers
    )
    assert found == [
        ("pool", 100, 300),
        ("pool", 101, 301),
        ("worker", 100, 100),
        ("worker", 101, 101),
    ]


def test_firefox(request_of_two: ExportRequest) -> None:
    file = io.BytesIO()
    firefox.write(request_of_two, file)
    threads = json.loads(file.getvalue())["threads"]
    assert {each["tid"]: int(each["pid"]) for each in threads} == WHOSE
    assert {each["tid"] for each in threads if each["isMainThread"]} == {100, 101}


def test_json_lines(request_of_two: ExportRequest) -> None:
    file = io.BytesIO()
    json_lines.write(request_of_two, file)
    objects = [json.loads(line) for line in file.getvalue().decode().splitlines()]
    assert {each["tid"]: each["pid"] for each in objects if each["type"] == "thread"} == WHOSE


def test_sqlite(request_of_two: ExportRequest, tmp_path: Path) -> None:
    path = tmp_path / "x.sqlite"
    with path.open("w+b") as file:
        sqlite.write(request_of_two, file)
    with sqlite3.connect(path) as database:
        rows = database.execute("select tid, pid from threads join processes using (process_id)")
        assert dict(rows.fetchall()) == WHOSE


def test_pprof(request_of_two: ExportRequest) -> None:
    file = io.BytesIO()
    pprof.write(request_of_two, file)
    samples = PprofFile(file.getvalue()).samples
    found = {int(each.labels["tid"]): int(each.labels["pid"]) for each in samples}
    assert found == WHOSE
    assert {each.labels["process"] for each in samples} == {"worker"}
