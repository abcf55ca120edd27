"""V8's CPU profile: its schema, and times as readers understand them."""

from __future__ import annotations

import io
import json
import random
from typing import Any

import pytest

import wire
from export_readers import cpuprofile_sums, tree_sums
from flametap.export import cpuprofile
from flametap.export.request import ExportRequest
from flametap.model import Clock, Frame, Function, Status
from flametap.recording.names.table import SymbolTable
from flametap.recording.profile.store import Profile
from flametap.tree.selection import Selection, Span
from profiles import MAIN_ADDR, apply, random_profile, small_profile
from recordings import recorded

FRAME = {"functionName": str, "scriptId": str, "url": str, "lineNumber": int, "columnNumber": int}


def export(request: ExportRequest) -> dict[str, Any]:
    """The file, checked by Profiler.Profile of the DevTools protocol."""
    stream = io.BytesIO()
    cpuprofile.write(request, stream)
    file: dict[str, Any] = json.loads(stream.getvalue())
    assert isinstance(file["startTime"], int)
    assert isinstance(file["endTime"], int)
    ids = [node["id"] for node in file["nodes"]]
    assert [node["callFrame"]["functionName"] for node in file["nodes"][:2]] == ["(root)", "(idle)"]
    below = [child for node in file["nodes"] for child in node.get("children", ())]
    assert sorted(below) == ids[1:], "each node but the root is below one other"
    for node in file["nodes"]:
        assert node.keys() <= {"id", "callFrame", "hitCount", "children"}
        assert {key: type(value) for key, value in node["callFrame"].items()} == FRAME
        assert node["callFrame"]["lineNumber"] >= -1
        assert node["hitCount"] >= 0
    assert len(file["samples"]) == len(file["timeDeltas"])
    assert set(file["samples"]) <= set(ids)
    assert all(isinstance(each, int) and each >= 0 for each in file["timeDeltas"])
    assert file["samples"][-1] == 2, "nothing after the last one has a length"
    end = file["startTime"] + sum(file["timeDeltas"])
    assert end <= file["endTime"]
    assert sum(node["hitCount"] for node in file["nodes"]) == file["endTime"] - file["startTime"]
    return file


@pytest.mark.parametrize("clock", [Clock.CPU, Clock.WALL])
def test_samples_add_up_to_the_call_tree_of_the_heaviest_thread(clock: Clock) -> None:
    recording = recorded(*random_profile(random.Random(clock.value)))
    request = ExportRequest(recording, Selection(clock, span=Span(200_000, 1_500_000)))
    file, trees = export(request), tree_sums(request)
    about = file["flametap"]
    exact = trees.pop(about["thread"])
    assert exact.total() >= max(each.total() for each in trees.values())
    rest_ns = sum(each.total() for each in trees.values())
    assert about["left_out"] == {"threads": 4, "ns": rest_ns}
    assert f"only the heaviest of 5 threads, {about['thread']}" in about["notes"][0]
    found = cpuprofile_sums(file)
    assert found.keys() == exact.keys()
    for stack, ns in exact.items():  # a run may gain or lose less than a microsecond
        assert found[stack] * 1000 == pytest.approx(ns, abs=1000 * len(file["samples"]))
    assert found.total() == exact.total() // 1000


def test_moments_and_pauses() -> None:
    request = ExportRequest(
        recorded(*small_profile()), Selection(Clock.OFF_CPU, thread_ids=frozenset({2}))
    )
    file = export(request)
    assert file["flametap"]["left_out"] == {"threads": 0, "ns": 0}
    names = {node["id"]: node["callFrame"]["functionName"] for node in file["nodes"]}
    assert [names[each] for each in file["samples"]] == ["(idle)", "[epoll_wait]", "(idle)"]
    assert file["timeDeltas"] == [0, 10, 5000], "each is before its sample"
    assert (file["startTime"], file["endTime"]) == (1000, 9000)


def test_lines_begin_with_0() -> None:
    file = export(ExportRequest(recorded(*small_profile()), Selection(Clock.WALL)))
    frames = {each["callFrame"]["functionName"]: each["callFrame"] for each in file["nodes"]}
    assert (frames["work"]["url"], frames["work"]["lineNumber"]) == ("work.c", 19)
    assert (frames["epoll_wait"]["url"], frames["epoll_wait"]["lineNumber"]) == ("libc.so.6", -1)
    scripts = {each["url"]: each["scriptId"] for each in frames.values()}
    assert len(set(scripts.values())) == len(scripts)


def test_counted_in_samples() -> None:
    file = export(ExportRequest(recorded(*small_profile()), unit="samples"))
    assert cpuprofile_sums(file).total() == 5
    assert file["flametap"]["left_out"] == {"threads": 1, "samples": 1}


@pytest.mark.parametrize("name", ["(idle)", 'a\udc80"\x1b\x9b\n'])
def test_names_of_any_bytes(name: str) -> None:
    profile = Profile()
    apply(
        profile,
        10**9,
        threads=[wire.thread(1, 101, "main")],
        traces=[wire.trace(1, [MAIN_ADDR])],
        intervals=[wire.interval(1, 1, 1_000_000, 2_000_000, 2_000_000)],
    )
    table = SymbolTable(profile.locate)
    for address_id, _ in profile.news().addresses:
        table.set(address_id, [Frame(Function(name, "m\udc80"), 1)])
    status = Status(7, "t\udc80", "ended", notes=["3 intervals lost"])
    file = export(ExportRequest(recorded(profile, table, status)))
    shown = {"(idle)": "[idle]"}.get(name, 'a?"\x1b\x9b\n')
    assert cpuprofile_sums(file) == {(shown,): 2000}
    assert file["flametap"]["notes"][-1] == "3 intervals lost"


def test_empty_profile() -> None:
    file = export(ExportRequest(recorded(Profile(), SymbolTable())))
    assert (len(file["nodes"]), cpuprofile_sums(file)) == (2, {})
