"""Chrome's trace events: nested slices at the moments of the recording, that add up."""

from __future__ import annotations

import io
import json
import random
from typing import Any

import pytest

import wire
from export_readers import chrome_sums, tree_sums
from flametap.export import chrome
from flametap.export.request import ExportRequest
from flametap.export.shaping import shaping_of
from flametap.model import Clock, Frame, Function, Status
from flametap.recording.names.table import SymbolTable
from flametap.recording.profile.store import Profile
from flametap.tree.selection import Selection, Span
from profiles import MAIN_ADDR, WORK_ADDR, WORK_ADDR_2, apply, name_addresses, random_profile
from recordings import recorded


def written(request: ExportRequest) -> bytes:
    file = io.BytesIO()
    chrome.write(request, file)
    return file.getvalue()


def slices(request: ExportRequest) -> list[tuple[str, float, float]]:
    """Name, begin and end of each slice, in the order in which they end."""
    found, stack = [], []
    for event in json.loads(written(request))["traceEvents"]:
        if event["ph"] == "B":
            stack.append(event)
        elif event["ph"] == "E":
            found.append((event["name"], stack.pop()["ts"], event["ts"]))
    return found


@pytest.mark.parametrize("clock", Clock)
def test_slices_add_up_to_the_call_tree(clock: Clock) -> None:
    recording = recorded(*random_profile(random.Random(clock.value)))
    for selection in (
        Selection(clock),
        Selection(clock, frozenset({2, 3}), span=Span(500_000, 1_500_000)),
    ):
        request = ExportRequest(recording, selection)
        assert chrome_sums(written(request)) == tree_sums(request)


def test_shaped_slices_are_those_of_the_shaped_tree() -> None:
    recording = recorded(*random_profile(random.Random(3)))
    shaping = shaping_of(recording, "hide:f1@prog;without:?epoll")
    request = ExportRequest(recording, Selection(Clock.WALL), shaping=shaping)
    assert chrome_sums(written(request)) == tree_sums(request)


def test_counted_in_samples() -> None:
    request = ExportRequest(recorded(*random_profile(random.Random(2))), unit="samples")
    counted = {
        thread: {stack: count // 1000 for stack, count in sums.items()}
        for thread, sums in chrome_sums(written(request)).items()
    }
    assert counted == tree_sums(request)


def one_thread(*intervals: bytes) -> tuple[Profile, SymbolTable]:
    profile = Profile()
    apply(
        profile,
        10**9,
        modules=[wire.module(1, "/opt/prog")],
        threads=[wire.thread(1, 101, "main")],
        traces=[wire.trace(1, [WORK_ADDR, MAIN_ADDR]), wire.trace(2, [WORK_ADDR_2, MAIN_ADDR])],
        intervals=intervals,
    )
    table = SymbolTable(profile.locate)
    name_addresses(profile, table)
    return profile, table


def test_slices_are_where_they_were_and_go_on_from_sample_to_sample() -> None:
    profile, table = one_thread(
        wire.interval(1, 1, 1_000_000, 2_000_000, 2_000_000),
        wire.interval(1, 1, 3_000_000, 1_000_000, 900_000),
        wire.interval(1, 2, 4_000_000, 1_000_000, 1_000_000),
        wire.interval(1, 1, 20_000_000, 1_000_000, 1_000_000),
    )
    start_us = profile.start_ns / 1000
    found = [
        (name, begin + start_us, end + start_us)
        for name, begin, end in slices(ExportRequest(recorded(profile, table)))
    ]
    assert found == [
        ("clamp", 1000, 3900),
        ("work", 1000, 4900),
        ("main", 1000, 4900),
        ("clamp", 20_000, 21_000),
        ("work", 20_000, 21_000),
        ("main", 20_000, 21_000),
    ]


def test_rows_that_overlap_follow_each_other() -> None:
    profile, table = one_thread(
        wire.interval(1, 1, 2_000_000, 3_000_000, 0, wire.PARKED, sysno=232),
        wire.interval(1, 2, 3_000_000, 2_000_000, 2_000_000),
    )
    found = slices(ExportRequest(recorded(profile, table), Selection(Clock.WALL)))
    assert [each for each in found if each[0] in ("[epoll_wait]", "main")] == [
        ("[epoll_wait]", 0, 3000),
        ("main", 0, 5000),
    ]


def test_threads_of_one_tid_have_tracks_of_their_own() -> None:
    profile = Profile()
    apply(
        profile,
        10**9,
        threads=[wire.thread(1, 101, "old"), wire.thread(2, 101, "new")],
        traces=[wire.trace(1, [MAIN_ADDR])],
        intervals=[wire.interval(i, 1, 1_000_000, 2_000_000, 2_000_000) for i in (1, 2)],
    )
    file = written(ExportRequest(recorded(profile, SymbolTable(profile.locate))))
    assert [sum(each.values()) for each in chrome_sums(file).values()] == [2_000_000] * 2
    assert {name.partition(" ")[0] for name in chrome_sums(file)} == {"old", "new"}


def test_names_of_any_bytes_and_notes() -> None:
    profile, table = one_thread(wire.interval(1, 1, 1_000, 1_000, 1_000))
    for address_id, _ in profile.news().addresses:
        table.set(address_id, [Frame(Function('a\udc80"\x1b\x9b\n', "m\udc80"), 1)])
    status = Status(7, "t\udc80", "ended", notes=["3 intervals lost"])
    data = written(ExportRequest(recorded(profile, table, status)))
    assert not set(data.replace(b",\n", b"")) & {*range(32), 127}
    assert b"\xc2\x9b" not in data
    file: dict[str, Any] = json.loads(data)
    assert file["traceEvents"][-1]["name"] == 'a?"\x1b\x9b\n'
    assert file["traceEvents"][0]["args"]["name"] == "t?"
    assert file["otherData"]["notes"][-1] == "3 intervals lost"


def test_empty_profile() -> None:
    assert chrome_sums(written(ExportRequest(recorded(Profile(), SymbolTable())))) == {}
