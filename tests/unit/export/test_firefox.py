"""Firefox Profiler's format: its tables refer to each other, and the weights are the profile's."""

from __future__ import annotations

import io
import json
import random
from typing import Any

import numpy as np
import pytest

import wire
from flametap.export import firefox, speedscope
from flametap.export.firefox_tables import Tables
from flametap.export.leaf_stacks import LeafStacks
from flametap.export.request import ExportRequest
from flametap.model import Clock, Frame, FrameKind, Function, Status
from flametap.recording.names.table import SymbolTable
from flametap.recording.profile.roster import Roster
from flametap.recording.profile.store import Profile
from flametap.tree.frame_filter import FrameFilter
from flametap.tree.selection import Selection, Span
from gil_profiles import gil_profile
from ledger import firefox_stacks
from profiles import (
    MAIN_ADDR,
    SMALL_MAIN,
    SMALL_POOL,
    WORK_ADDR,
    WORK_ADDR_2,
    apply,
    random_profile,
    small_profile,
)
from recordings import recorded

NS_PER_MS = 1e6


def export(request: ExportRequest) -> dict[str, Any]:
    """The file, with the references between its tables checked."""
    stream = io.BytesIO()
    firefox.write(request, stream)
    file: dict[str, Any] = json.loads(stream.getvalue())
    shared = file["shared"]
    strings = shared["stringArray"]
    for name, table in shared.items():
        if name != "stringArray":
            columns = [len(column) for key, column in table.items() if key != "length"]
            assert set(columns) == {table["length"]}, name
    stacks, frames, functions = (shared[f"{name}Table"] for name in ("stack", "frame", "func"))
    for i, (frame, offset) in enumerate(zip(stacks["frame"], stacks["prefixOffset"], strict=True)):
        assert 0 <= frame < frames["length"]
        assert 0 <= offset <= i, "a caller comes first"
    assert all(0 <= i < functions["length"] for i in frames["func"])
    assert all(0 <= i < len(file["meta"]["categories"]) for i in frames["category"])
    assert all(0 <= i < len(strings) for i in functions["name"])
    assert all(-1 <= i < shared["resourceTable"]["length"] for i in functions["resource"])
    assert all(i is None or i < shared["sources"]["length"] for i in functions["source"])
    for thread in file["threads"]:
        columns = thread["samples"]
        times = columns["time"]
        has_cpu = "threadCPUDelta" in columns
        names = ("stack", "weight", *(("threadCPUDelta",) if has_cpu else ()))
        assert {len(columns[name]) for name in names} == {len(times)}
        assert all(0 <= time < file["meta"]["profilingEndTime"] for time in times)
        assert times == sorted(times)
        assert all(
            weight == 0 for stack, weight in zip(columns["stack"], columns["weight"], strict=True)
            if stack is None
        )  # fmt: skip
    return file


def samples(file: dict[str, Any], thread: dict[str, Any]) -> list[tuple[str, int]]:
    """(stack as text, weight in nanoseconds) of each sample with a stack."""
    stacks = firefox_stacks(file["shared"])
    columns = thread["samples"]
    return [
        (";".join(stacks[stack]), round(weight * NS_PER_MS))
        for stack, weight in zip(columns["stack"], columns["weight"], strict=True)
        if stack is not None
    ]


def by_stack(rows: list[tuple[str, int]]) -> dict[str, int]:
    """The sum of each stack."""
    found: dict[str, int] = {}
    for stack, weight in rows:
        found[stack] = found.get(stack, 0) + weight
    return found


def speedscopes(request: ExportRequest) -> dict[str, dict[str, int]]:
    """The same of the speedscope file, by the thread's name and number."""
    stream = io.BytesIO()
    speedscope.write(request, stream)
    file = json.loads(stream.getvalue())
    names = [frame["name"] for frame in file["shared"]["frames"]]
    return {
        profile["name"]: by_stack(
            [
                (";".join(names[i] for i in sample), weight)
                for sample, weight in zip(profile["samples"], profile["weights"], strict=True)
            ]
        )
        for profile in file["profiles"]
    }


def test_threads_in_order_of_time() -> None:
    status = Status(101, "/opt/prog --port 80", "ended", started_s=1e9)
    file = export(ExportRequest(recorded(*small_profile(), status)))
    main, pool = file["threads"]
    assert [(each["name"], each["tid"], each["pid"]) for each in (main, pool)] == [
        ("main", 101, "101"),
        ("pool;1", 102, "101"),
    ]
    assert (main["isMainThread"], pool["isMainThread"]) == (True, False)
    assert samples(file, main) == SMALL_MAIN
    assert samples(file, pool) == SMALL_POOL
    meta = file["meta"]
    assert meta["initialSelectedThreads"] == [1], "the heaviest"
    assert (meta["product"], meta["arguments"]) == ("prog", "/opt/prog --port 80")
    assert meta["startTime"] == 1e12


@pytest.mark.parametrize("clock", Clock)
def test_weights_are_those_of_speedscope(clock: Clock) -> None:
    profile, table = random_profile(random.Random(clock.value))
    request = ExportRequest(recorded(profile, table), Selection(clock))
    file = export(request)
    ours = {
        f"{each['name']} ({each['tid']})": by_stack(samples(file, each)) for each in file["threads"]
    }
    assert ours == speedscopes(request)


def test_counted_in_samples() -> None:
    request = ExportRequest(recorded(*small_profile()), unit="samples")
    file = export(request)
    columns = [thread["samples"] for thread in file["threads"]]
    assert [(each["weightType"], sum(each["weight"])) for each in columns] == [
        ("samples", 5),
        ("samples", 1),
    ]


def one_thread(*intervals: bytes, now_ns: int = 10**9) -> tuple[Profile, SymbolTable]:
    """A profile of a thread in two stacks, 1 and 2."""
    profile = Profile()
    apply(
        profile,
        now_ns,
        modules=[wire.module(1, "/opt/prog")],
        threads=[wire.thread(1, 101, "main")],
        traces=[wire.trace(1, [WORK_ADDR, MAIN_ADDR]), wire.trace(2, [WORK_ADDR_2, MAIN_ADDR])],
        intervals=intervals,
    )
    return profile, SymbolTable(profile.locate)


def test_sample_without_a_stack_ends_what_a_thread_did() -> None:
    profile, table = one_thread(
        wire.interval(1, 1, 1_000_000, 2_000_000, 2_000_000),
        wire.interval(1, 1, 3_000_000, 1_000_000, 1_000_000),  # not joined: each is a sample
        wire.interval(1, 2, 20_000_000, 1_000_000, 1_000_000),
        # Uses a tenth of its time.
        wire.interval(1, 1, 21_000_000, 10_000_000, 1_000_000),
        wire.interval(1, 2, 31_000_000, 1_000_000, 1_000_000),
    )
    (thread,) = export(ExportRequest(recorded(profile, table)))["threads"]
    columns = thread["samples"]
    start_ms = profile.start_ns / NS_PER_MS
    assert [round(each + start_ms) for each in columns["time"]] == [1, 3, 4, 20, 21, 22, 31, 32]
    assert [each is None for each in columns["stack"]] == [0, 0, 1, 0, 0, 1, 0, 1]
    assert columns["weight"] == [2, 1, 0, 1, 1, 0, 1, 0]
    # What was used since the sample before.
    assert [each / 1e6 for each in columns["threadCPUDelta"]] == [0, 2, 1, 0, 1, 1, 0, 1]


def test_rows_that_overlap_are_moved_back() -> None:
    """Nothing is moved behind the end of the recording, where the viewer shows none of it."""
    profile, table = one_thread(
        wire.interval(1, 1, 2_000_000, 3_000_000, 0, wire.PARKED, sysno=232),
        wire.interval(1, 2, 3_000_000, 2_000_000, 2_000_000),
        now_ns=5_000_000,
    )
    file = export(ExportRequest(recorded(profile, table), Selection(Clock.WALL)))
    columns = file["threads"][0]["samples"]
    assert columns["time"] == [0, 1, 3]
    assert columns["weight"] == [3, 2, 0]


@pytest.mark.parametrize("clock", [Clock.WALL, Clock.OFF_CPU])
def test_pause_is_no_part_of_what_was_before(clock: Clock) -> None:
    profile, table = one_thread(
        wire.interval(1, 1, 1_000_000, 9_000_000, 0, wire.PARKED, sysno=232),
        wire.interval(1, 1, 15_000_000, 1_000_000, 0, wire.PARKED, sysno=232),
    )
    (thread,) = export(ExportRequest(recorded(profile, table), Selection(clock)))["threads"]
    columns = thread["samples"]
    assert [each is None for each in columns["stack"]] == [False, True, False, True]
    assert np.diff(columns["time"]).round().tolist() == [9, 5, 1]


@pytest.mark.parametrize(
    ("selection", "has"),
    [
        (Selection(), True),
        (Selection(Clock.WALL), True),
        (Selection(Clock.OFF_CPU), False),
        (Selection(frames=FrameFilter(only_gil=True)), False),
    ],
)
def test_cpu_use_is_told_where_running_threads_count(selection: Selection, has: bool) -> None:
    file = export(ExportRequest(recorded(*gil_profile()), selection))
    assert file["threads"]
    assert all(("threadCPUDelta" in each["samples"]) is has for each in file["threads"])


def test_many_threads_at_once_are_not_put_one_after_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Roster, "_add_nameless", lambda *_: False)  # as if the table were full
    profile, table = one_thread(
        *(wire.interval(thread, 1, 1_000_000, 5_000_000, 5_000_000) for thread in (2, 3, 4)),
        wire.interval(1, 1, 1_000_000, 5_000_000, 5_000_000),
        now_ns=6_000_000,
    )
    file = export(ExportRequest(recorded(profile, table)))
    more = next(each for each in file["threads"] if each["name"] == "[more threads]")
    columns = more["samples"]
    rows = zip(columns["time"], columns["weight"], strict=True)
    assert [time for time, weight in rows if weight] == [0, 0, 0]


def test_range_is_all_that_the_viewer_shows() -> None:
    profile, table = one_thread(
        wire.interval(1, 1, 1_000_000, 5_000_000, 5_000_000),
        wire.interval(1, 2, 6_000_000, 4_000_000, 4_000_000),
        now_ns=10_000_000,
    )
    start_ns = profile.start_ns
    span = Span(5_000_000 - (start_ns - 1_000_000), 8_000_000 - (start_ns - 1_000_000))
    file = export(ExportRequest(recorded(profile, table), Selection(span=span)))
    meta = file["meta"]
    assert (meta["profilingStartTime"], round(meta["profilingEndTime"])) == (
        span.start_ns / NS_PER_MS,
        round((span.end_ns or 0) / NS_PER_MS),
    )
    columns = file["threads"][0]["samples"]
    assert columns["time"][0] >= meta["profilingStartTime"]
    assert sum(columns["weight"]) == 3


def test_thread_without_a_row_in_the_range_is_empty() -> None:
    """Sums and rows of a range may differ by what rounding takes from a start time."""
    request = ExportRequest(recorded(*small_profile()))
    samples = firefox._Timed(request)(99, Tables(LeafStacks(request)))
    assert len(samples.stack) == len(samples.time_ms) == 0


def test_functions_have_file_line_module_and_category() -> None:
    file = export(ExportRequest(recorded(*small_profile()), Selection(Clock.WALL)))
    shared, names = file["shared"], file["shared"]["stringArray"]
    functions, frames = shared["funcTable"], shared["frameTable"]
    categories = [each["name"] for each in file["meta"]["categories"]]
    found = {}
    for frame in range(frames["length"]):
        function = frames["func"][frame]
        source, module = functions["source"][function], functions["resource"][function]
        found[names[functions["name"][function]]] = (
            None if source is None else names[shared["sources"]["filename"][source]],
            frames["line"][frame],
            None if module < 0 else names[shared["resourceTable"]["name"][module]],
            categories[frames["category"][frame]],
        )
    assert found["clamp"] == ("clamp.h", 3, "prog", "Native")
    assert found["[epoll_wait]"] == (None, None, None, "Kernel")
    assert found["[truncated]"] == (None, None, None, "Other")


def test_javascript_can_be_shown_alone() -> None:
    profile, table = one_thread(wire.interval(1, 1, 1_000, 1_000, 1_000))
    for address_id, frame in profile.news().addresses:
        kind = FrameKind.JAVASCRIPT if frame.addr == 0x1000 else FrameKind.NATIVE
        table.set(address_id, [Frame(Function(f"f{frame.addr:x}", "", "a.js", kind), 1)])
    file = export(ExportRequest(recorded(profile, table)))
    assert file["shared"]["funcTable"]["isJS"] == [True, False]
    assert not file["meta"]["usesOnlyOneStackType"]
    assert export(ExportRequest(recorded(*small_profile())))["meta"]["usesOnlyOneStackType"]


def test_notes_and_cost_are_facts_about_the_profile() -> None:
    status = Status(7, "prog", "ended", notes=["3 intervals lost"])
    status.counters["signals_sent"] = 7
    (section,) = export(ExportRequest(recorded(*small_profile(), status)))["meta"]["extra"]
    facts = {each["label"]: each["value"] for each in section["entries"]}
    assert facts["counted"] == "cpu time of the whole recording"
    assert "3 intervals lost" in [value for label, value in facts.items() if "note" in label]
    assert facts["signals_sent"] == "7"


def test_empty_profile() -> None:
    file = export(ExportRequest(recorded(Profile(), SymbolTable())))
    assert (file["threads"], file["shared"]["stackTable"]["length"]) == ([], 0)


def test_names_of_any_bytes() -> None:
    profile, table = one_thread(wire.interval(1, 1, 1_000, 1_000, 1_000))
    for address_id, _ in profile.news().addresses:
        table.set(address_id, [Frame(Function('a\udc80"\x1b\x9b\n', "m\udc80", "f\udc80"), 1)])
    stream = io.BytesIO()
    firefox.write(ExportRequest(recorded(profile, table, Status(7, "t\udc80", "ended"))), stream)
    assert not set(stream.getvalue()) & {*range(32), 127}
    assert b"\xc2\x9b" not in stream.getvalue()
    assert 'a?"\x1b\x9b\n' in json.loads(stream.getvalue())["shared"]["stringArray"]
