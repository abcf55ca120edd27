"""pprof: each clock's sums, threads and what they did, addresses; and what Go's own reader says."""

from __future__ import annotations

import io
import random
import re
import subprocess
from pathlib import Path

import pytest

import wire
from flametap.export import pprof
from flametap.export.request import ExportRequest
from flametap.export.shaping import shaping_of
from flametap.model import Clock, Frame, Function, Status
from flametap.recording.names.table import SymbolTable
from flametap.recording.profile.store import Profile
from flametap.tree.selection import Selection, Span
from pprof_file import PprofFile
from profiles import (
    EPOLL_WAIT,
    MAIN_ADDR,
    WAIT_ADDR,
    WORK_ADDR,
    apply,
    name_addresses,
    random_profile,
    small_profile,
)
from recordings import recorded

TYPES = {Clock.CPU: "cpu", Clock.WALL: "wall", Clock.OFF_CPU: "off_cpu"}
FUTEX = 202


def written(request: ExportRequest) -> bytes:
    file = io.BytesIO()
    pprof.write(request, file)
    return file.getvalue()


def read(request: ExportRequest) -> PprofFile:
    return PprofFile(written(request))


def stacks(request: ExportRequest, clock: Clock) -> dict[tuple[str, ...], int]:
    """The stacks of the call tree, with their own weights."""
    tree = request.tree(clock)
    paths: list[tuple[str, ...]] = []
    for parent, function in zip(tree.parent.tolist(), tree.function.tolist(), strict=True):
        name = (tree.functions[function].name,) if function >= 0 else ()
        paths.append((*paths[parent], *name) if parent >= 0 else ())
    found: dict[tuple[str, ...], int] = {}
    for path, own_ns in zip(paths, tree.self_ns.tolist(), strict=True):
        if own_ns:
            found[path] = found.get(path, 0) + own_ns
    return found


def check(request: ExportRequest) -> PprofFile:
    file = read(request)
    for clock, name in TYPES.items():
        sums: dict[tuple[str, ...], int] = {}
        for each in file.samples:
            if each.values[name]:
                sums[each.stack] = sums.get(each.stack, 0) + each.values[name]
        assert sums == stacks(request, clock)
    return file


@pytest.mark.parametrize("seed", range(3))
def test_sums_of_all_clocks_are_those_of_the_call_trees(seed: int) -> None:
    profile, table = random_profile(random.Random(seed))
    file = check(ExportRequest(recorded(profile, table), Selection(Clock.WALL)))
    assert file.types == ["cpu", "wall", "off_cpu", "samples"]
    assert file.default == "wall"
    assert sum(each.values["samples"] for each in file.samples) == profile.samples
    check(ExportRequest(recorded(profile, table), Selection(thread_ids=frozenset({2, 3}))))


def test_range_has_no_numbers_of_samples_as_they_are_not_known() -> None:
    profile, table = random_profile(random.Random(7))
    begin, end = profile.duration_ns // 3, profile.duration_ns // 2
    span = Span(begin, end)
    file = check(ExportRequest(recorded(profile, table), Selection(span=span)))
    assert file.types == ["cpu", "wall", "off_cpu"]
    assert file.fields["duration_ns"] == [end - begin]
    assert file.fields["time_ns"] == [begin]
    assert any(each.endswith(" of the recording") for each in file.comments)


def test_shaped_stacks_are_those_of_the_shaped_tree() -> None:
    recording = recorded(*random_profile(random.Random(3)))
    whole = ExportRequest(recording)
    name = max(stacks(whole, Clock.CPU).items(), key=lambda each: each[1])[0][-1]
    request = ExportRequest(recording, shaping=shaping_of(recording, f"hide:{name}"))
    file = check(request)
    assert not any(name in each.stack for each in file.samples)
    assert not any(each["address"] for each in file.locations.values())


@pytest.mark.parametrize("steps", ["hide:=kernel", "fold:=kernel", "without:?epoll"])
def test_shape_means_functions_that_only_sleeping_threads_have(steps: str) -> None:
    recording = recorded(*random_profile(random.Random(3)))
    plain = check(ExportRequest(recording))
    shaped = check(ExportRequest(recording, shaping=shaping_of(recording, steps)))
    assert any("[epoll_wait]" in each.stack for each in plain.samples)
    assert not any("[epoll_wait]" in each.stack for each in shaped.samples)


def labelled(load_bias: int = 0x5000_0000) -> tuple[Profile, SymbolTable]:
    profile, table = Profile(), SymbolTable()
    table = SymbolTable(profile.locate)
    apply(
        profile,
        10**9,
        modules=[
            wire.module(1, "/opt/prog", load_bias=load_bias, build_id=bytes.fromhex("c0ffee"))
        ],
        threads=[wire.thread(1, 101, "main"), wire.thread(2, 102, "pool")],
        traces=[
            wire.trace(1, [WORK_ADDR, MAIN_ADDR]),
            wire.trace(2, [WAIT_ADDR, MAIN_ADDR]),
        ],
        intervals=[
            wire.interval(1, 1, 1_000, 5_000, 4_000),
            wire.interval(1, 2, 6_000, 7_000, 0, wire.PARKED, sysno=EPOLL_WAIT),
            wire.interval(2, 2, 6_000, 9_000, 0, wire.PARKED, sysno=FUTEX),
            wire.interval(2, 1, 20_000, 2_000, 0, wire.QUEUED),
        ],
    )
    name_addresses(profile, table)
    return profile, table


def test_labels_say_who_and_what() -> None:
    status = Status(101, "/opt/prog --all", "ended", program="prog", notes=["a note"])
    profile, table = labelled()
    file = read(ExportRequest(recorded(profile, table, status)))
    said = {
        (int(each.labels["tid"]), each.labels["state"], each.labels.get("wait")): each
        for each in file.samples
    }
    assert said.keys() >= {
        (101, "running", None),
        (101, "asleep", "poll"),
        (102, "asleep", "lock"),
        (102, "waiting for a CPU", None),
    }
    running = said[101, "running", None]
    assert running.labels["thread"] == "main"
    assert (running.labels["process"], running.labels["pid"]) == ("prog", "101")
    assert (running.values["cpu"], running.values["off_cpu"]) == (4_000, 1_000)
    assert said[102, "asleep", "lock"].labels["thread"] == "pool"
    assert said[101, "asleep", "poll"].stack[-1] == "[epoll_wait]"
    assert "a note" in file.comments


def test_stacks_of_several_programs_are_not_those_of_one_process() -> None:
    file = read(ExportRequest(recorded(*labelled(), Status(0, "", "ended", program="a and b"))))
    assert not any({"process", "pid"} & each.labels.keys() for each in file.samples)


def test_program_at_its_own_addresses_is_one_mapping_of_all() -> None:
    file = read(ExportRequest(recorded(*labelled(load_bias=0))))
    (mapping,) = file.mappings.values()
    assert (mapping["start"], mapping["limit"], mapping["offset"]) == ([], [-1], [])


def test_locations_are_addresses_in_mappings_with_their_inlined_functions() -> None:
    file = read(ExportRequest(recorded(*small_profile())))
    (mapping,) = file.mappings.values()
    assert file.text(mapping, "filename").endswith("prog")
    inlined = [number for number in file.locations if len(file.lines(number)) > 1]
    assert inlined
    for number in inlined:
        names = [name for name, _, _ in file.lines(number)]
        assert names == ["clamp", "work"]
        (addr,) = file.locations[number]["address"]
        assert mapping["start"][0] <= addr < mapping["limit"][0]


@pytest.mark.needs("go")
def test_go_reads_the_same(tmp_path: Path) -> None:
    profile, table = random_profile(random.Random(1))
    request = ExportRequest(recorded(profile, table), Selection(Clock.WALL))
    path = tmp_path / "out.pb.gz"
    path.write_bytes(written(request))
    command = ["go", "tool", "pprof", "-raw", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    samples, locations = done.stdout.split("Samples:\n")[1].split("\nLocations\n")
    assert "wall/nanoseconds[dflt]" in samples
    names = {
        found[1]: found[2]
        for found in re.finditer(
            r"^ +(\d+): 0x[0-9a-f]+ (?:M=\d+ )?(.*) \S*:\d+ s=0$", locations, re.MULTILINE
        )
    }
    sums: dict[str, int] = {}
    for found in re.finditer(r"^ +\d+ +(\d+) +\d+ +\d+: (\d+)", samples, re.MULTILINE):
        if int(found[1]):
            name = names[found[2]]
            sums[name] = sums.get(name, 0) + int(found[1])
    ours: dict[str, int] = {}
    for stack, own_ns in stacks(request, Clock.WALL).items():
        ours[stack[-1]] = ours.get(stack[-1], 0) + own_ns
    assert sums == ours


def test_texts_that_are_no_unicode_are_written(tmp_path: Path) -> None:
    profile, table = labelled()
    for address, _ in profile.news().addresses:
        table.set(address, [Frame(Function("na\udcffme", "prog", "a\udc80.c"))])
    file = read(ExportRequest(recorded(profile, table)))
    assert {each.stack[0] for each in file.samples} == {"na?me"}
