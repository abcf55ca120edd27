"""JSON Lines: each clock's sums, threads, and what they did."""

from __future__ import annotations

import io
import random
from dataclasses import replace

import pytest

import wire
from export_readers import json_lines, json_lines_sums, tree_sums
from flametap.export import json_lines as written_lines
from flametap.export.request import ExportRequest
from flametap.export.shaping import shaping_of
from flametap.model import Clock, Frame, Function, Status
from flametap.recording.names.table import SymbolTable
from flametap.recording.profile.store import Profile
from flametap.tree.selection import Selection, Span
from profiles import EPOLL_WAIT, MAIN_ADDR, apply, random_profile, small_profile
from recordings import recorded

VALUES = {Clock.CPU: "cpu_ns", Clock.WALL: "wall_ns", Clock.OFF_CPU: "off_cpu_ns"}
FUTEX = 202


def written(request: ExportRequest) -> bytes:
    file = io.BytesIO()
    written_lines.write(request, file)
    return file.getvalue()


def check(request: ExportRequest) -> bytes:
    data = written(request)
    for clock, value in VALUES.items():
        own = replace(request, selection=replace(request.selection, clock=clock))
        assert json_lines_sums(data, value) == tree_sums(own)
    return data


@pytest.mark.parametrize("seed", range(2))
def test_sums_of_all_clocks_are_those_of_the_call_trees(seed: int) -> None:
    profile, table = random_profile(random.Random(seed))
    data = check(ExportRequest(recorded(profile, table)))
    counted = json_lines_sums(data, "samples")
    assert sum(each.total() for each in counted.values()) == profile.samples
    check(ExportRequest(recorded(profile, table), Selection(thread_ids=frozenset({2, 3}))))


def test_shaped_range_has_no_numbers_of_samples() -> None:
    recording = recorded(*random_profile(random.Random(7)))
    request = ExportRequest(
        recording,
        Selection(span=Span(200_000, 1_500_000)),
        shaping=shaping_of(recording, "hide:f1@prog;fold:=kernel"),
    )
    lines = json_lines(check(request))
    assert not any("samples" in each for each in lines["time"])
    (header,) = lines["header"]
    assert (header["begin_ns"], header["duration_ns"]) == (200_000, 1_300_000)
    assert "f1 hidden" in header["counted"]


def test_rows_say_who_and_what() -> None:
    profile = Profile()
    apply(
        profile,
        10**9,
        threads=[wire.thread(1, 101, "main"), wire.thread(2, 102, "pool")],
        traces=[wire.trace(1, [MAIN_ADDR])],
        intervals=[
            wire.interval(1, 1, 1_000, 5_000, 4_000),
            wire.interval(1, 1, 6_000, 7_000, 0, wire.PARKED, sysno=EPOLL_WAIT),
            wire.interval(2, 1, 6_000, 9_000, 0, wire.PARKED, sysno=FUTEX),
            wire.interval(2, 1, 20_000, 2_000, 0, wire.QUEUED),
        ],
    )
    lines = json_lines(check(ExportRequest(recorded(profile, SymbolTable(profile.locate)))))
    found = {
        (each["thread"], each["state"], each.get("wait")): each["wall_ns"] for each in lines["time"]
    }
    assert found == {
        (1, "running", None): 5_000,
        (1, "asleep", "poll"): 7_000,
        (2, "asleep", "lock"): 9_000,
        (2, "waiting for a CPU", None): 2_000,
    }


def test_functions_have_file_line_and_module() -> None:
    status = Status(101, "/opt/prog --all", "ended", program="prog", notes=["a note"])
    lines = json_lines(written(ExportRequest(recorded(*small_profile(), status))))
    functions = {each["name"]: each for each in lines["function"]}
    assert {key: functions["work"][key] for key in ("module", "file", "line", "kind")} == {
        "module": "prog",
        "file": "work.c",
        "line": 20,
        "kind": "native",
    }
    assert functions["[truncated]"].keys() == {"type", "id", "name", "kind"}
    (header,) = lines["header"]
    assert (header["process"], header["pid"], header["notes"][-1]) == ("prog", 101, "a note")


def test_names_of_any_bytes() -> None:
    profile, table = small_profile()
    for address_id, _ in profile.news().addresses:
        table.set(address_id, [Frame(Function('a\udc80"\x1b\x9b\n\u2028', "m\udc80", "f\udc80"))])
    data = written(ExportRequest(recorded(profile, table, Status(7, "t\udc80", "ended"))))
    assert not set(data.replace(b"\n", b"")) & {*range(32), 127}
    assert 'a?"\x1b\x9b\n\u2028' in {each["name"] for each in json_lines(data)["function"]}


def test_empty_profile() -> None:
    lines = json_lines(written(ExportRequest(recorded(Profile(), SymbolTable()))))
    assert {name for name, found in lines.items() if found} == {"header"}
