"""speedscope JSON: valid by its own schema, and right where the schema does not look."""

from __future__ import annotations

import io
import json
import random
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest

from flametap import __version__
from flametap.export import speedscope
from flametap.export.request import ExportRequest
from flametap.model import Clock, Status
from flametap.recording.names.table import SymbolTable
from flametap.recording.profile.store import Profile
from flametap.tree.selection import Selection
from profiles import SMALL_MAIN, SMALL_POOL, random_profile, small_profile
from recordings import recorded

SCHEMA = json.loads(
    (
        Path(__file__).resolve().parents[2] / "data" / "speedscope" / "file-format-schema.json"
    ).read_text("utf-8")
)


def export(request: ExportRequest) -> dict[str, Any]:
    """The file, checked by schema and by what a schema cannot say."""
    stream = io.BytesIO()
    speedscope.write(request, stream)
    file: dict[str, Any] = json.loads(stream.getvalue())
    jsonschema.validate(file, SCHEMA)
    frames = file["shared"]["frames"]
    assert isinstance(file["activeProfileIndex"], int)
    assert 0 <= file["activeProfileIndex"] < max(1, len(file["profiles"]))
    for profile in file["profiles"]:
        assert len(profile["samples"]) == len(profile["weights"])
        assert all(weight > 0 for weight in profile["weights"])
        assert profile["startValue"] == 0
        assert profile["endValue"] == sum(profile["weights"])
        for sample in profile["samples"]:
            assert all(0 <= i < len(frames) for i in sample)
    return file


def samples(file: dict[str, Any], profile: dict[str, Any]) -> list[tuple[str, int]]:
    """(stack as text, weight) of each sample."""
    names = [frame["name"] for frame in file["shared"]["frames"]]
    return [
        (";".join(names[i] for i in sample), weight)
        for sample, weight in zip(profile["samples"], profile["weights"], strict=True)
    ]


def test_one_profile_per_thread_in_order_of_time() -> None:
    status = Status(7, "prog", "ended", notes=["3 intervals lost"])
    file = export(ExportRequest(recorded(*small_profile(), status)))
    assert file["exporter"] == f"flametap {__version__}"
    assert file["name"].startswith("prog (7), cpu time of the whole recording; recorded ")
    assert file["name"].endswith("; 3 intervals lost")
    main, pool = file["profiles"]
    assert (main["name"], main["unit"]) == ("main (101)", "nanoseconds")
    assert samples(file, main) == SMALL_MAIN
    assert samples(file, pool) == SMALL_POOL
    assert file["activeProfileIndex"] == 1, "the heaviest"


def test_cost_and_notes_stand_where_programs_find_them() -> None:
    status = Status(7, "prog", "ended", notes=["3 intervals lost"], duration_ns=10**9)
    status.counters |= {"signals_sent": 7, "handler_ns_total": 4_000_000}
    found = export(ExportRequest(recorded(*small_profile(), status)))["flametap"]
    assert found["version"] == __version__
    assert found["notes"][-1] == "3 intervals lost"
    assert found["cost"]["signals_sent"] == 7
    assert found["cost"]["core_share"] == 0.004


def test_frames_have_file_and_line() -> None:
    file = export(ExportRequest(recorded(*small_profile())))
    frames = {frame["name"]: frame for frame in file["shared"]["frames"]}
    assert frames["work"] == {"name": "work", "file": "work.c", "line": 20}
    assert frames["prog+0x1040"] == {"name": "prog+0x1040", "file": "prog"}
    assert frames["[truncated]"] == {"name": "[truncated]"}


def test_a_line_in_another_file_than_its_function_comes_with_that_file() -> None:
    file = export(ExportRequest(recorded(*small_profile()), Selection(thread_ids=frozenset({1}))))
    frames = {frame["name"]: frame for frame in file["shared"]["frames"]}
    assert frames["work"] == {"name": "work", "file": "work.inc", "line": 25}
    assert len(frames) == len(file["shared"]["frames"]), "one function, one frame"


def test_wall_shows_system_calls_and_some_threads_only() -> None:
    file = export(ExportRequest(recorded(*small_profile()), Selection(Clock.WALL, frozenset({2}))))
    (pool,) = file["profiles"]
    assert samples(file, pool) == [
        ("main;work;clamp", 10_000),
        ("main;epoll_wait;[epoll_wait]", 5_000_000),
    ]


def test_counted_in_samples() -> None:
    file = export(ExportRequest(recorded(*small_profile()), unit="samples"))
    assert [(p["unit"], p["endValue"]) for p in file["profiles"]] == [("none", 5), ("none", 1)]


def test_without_any_names_modules_and_addresses_stand_in() -> None:
    profile, _ = small_profile()
    file = export(ExportRequest(recorded(profile, SymbolTable(profile.locate))))
    assert ("prog+0x1000;prog+0x1010", 1_500) in samples(file, file["profiles"][0])


def test_empty_profile() -> None:
    assert export(ExportRequest(recorded(Profile(), SymbolTable())))["profiles"] == []


def test_thread_without_weight_is_left_out() -> None:
    file = export(ExportRequest(recorded(*small_profile()), Selection(Clock.OFF_CPU)))
    assert [profile["name"] for profile in file["profiles"]] == ["main (101)", "pool;1 (102)"]
    file = export(ExportRequest(recorded(*small_profile()), Selection(Clock.CPU, frozenset({9}))))
    assert file["profiles"] == []


@pytest.mark.parametrize("clock", Clock)
def test_sums_equal_the_profiles(clock: Clock) -> None:
    profile, table = random_profile(random.Random(clock.value))
    file = export(ExportRequest(recorded(profile, table), Selection(clock)))
    found = {entry["name"]: entry["endValue"] for entry in file["profiles"]}
    for info in profile.thread_infos():
        exact = {
            Clock.CPU: info.cpu_ns,
            Clock.WALL: info.wall_ns,
            Clock.OFF_CPU: info.off_cpu_ns,
        }[clock]
        assert found[f"{info.name} ({info.tid})"] == exact
    assert sum(found.values()) == profile.total_ns(clock)
