"""Folded stacks: the text, and sums that equal the profile's."""

from __future__ import annotations

import io
import random
import re
from collections import Counter

import pytest

from flametap.export import folded
from flametap.export.request import ExportRequest
from flametap.model import Clock, Frame, Function, Split
from flametap.recording.names.table import SymbolTable
from flametap.recording.profile.store import Profile
from flametap.tree.selection import Selection
from profiles import MAIN_ADDR, NAMES, name_addresses, random_profile, small_profile
from recordings import recorded


def lines_of(request: ExportRequest) -> list[str]:
    file = io.BytesIO()
    folded.write(request, file)
    text = file.getvalue().decode()
    assert text == "" or text.endswith("\n")
    return text.splitlines()


def test_folded_text() -> None:
    # Exactly: 1.1, 0.4, 0.7, 2.3 and 11.5 µs. The 0.7 of main;prog+0x1040 went into its neighbours.
    assert lines_of(ExportRequest(recorded(*small_profile()))) == [
        "[truncated];work 1",
        "[unattributed] 1",
        "main;work 3",
        "main;work;clamp 11",
    ]


def test_folded_by_thread_in_samples() -> None:
    request = ExportRequest(
        recorded(*small_profile()), Selection(split=Split.THREAD), unit="samples"
    )
    assert lines_of(request) == [
        "main (101);[truncated];work 1",
        "main (101);[unattributed] 1",
        "main (101);main;prog+0x1040 1",
        "main (101);main;work 1",
        "main (101);main;work;clamp 1",
        "pool:1 (102);main;work;clamp 1",
    ]


def test_folded_wall_shows_system_calls() -> None:
    lines = lines_of(
        ExportRequest(recorded(*small_profile()), Selection(Clock.WALL, frozenset({2})))
    )
    assert lines == ["main;epoll_wait;[epoll_wait] 5000", "main;work;clamp 10"]


def test_names_are_made_to_fit_the_format(monkeypatch: pytest.MonkeyPatch) -> None:
    names = {
        "a;b\nc\td": "a:b c d",
        "\x1b[31m": "[31m",
        "  ": "?",
        "x\u2028y": "x y",
        "\ud800": "?",
    }
    for name, expected in names.items():
        monkeypatch.setitem(NAMES, MAIN_ADDR, [Frame(Function(name, "prog"))])
        profile, table = small_profile()
        lines = lines_of(ExportRequest(recorded(profile, table)))
        assert any(line.startswith(f"{expected};work ") for line in lines)


def test_without_any_names_modules_and_addresses_stand_in() -> None:
    profile, _ = small_profile()
    lines = lines_of(ExportRequest(recorded(profile, SymbolTable(profile.locate))))
    assert "prog+0x1000;prog+0x1010 11" in lines


@pytest.mark.parametrize("clock", Clock)
def test_sums_equal_the_profiles(clock: Clock) -> None:
    profile, table = random_profile(random.Random(clock.value))
    request = ExportRequest(recorded(profile, table), Selection(clock, split=Split.THREAD))
    threads: Counter[str] = Counter()
    for line in lines_of(request):
        match = re.fullmatch(r"(.*) (\d+)", line)
        assert match is not None
        threads[match[1].split(";")[0]] += int(match[2])
    assert threads.total() == (profile.total_ns(clock) + 500) // 1000
    for info in profile.thread_infos():
        exact = {
            Clock.CPU: info.cpu_ns,
            Clock.WALL: info.wall_ns,
            Clock.OFF_CPU: info.off_cpu_ns,
        }[clock]
        assert abs(threads[f"{info.name} ({info.tid})"] - exact / 1000) <= 1
    merged = lines_of(request.without_roots())
    assert sum(int(line.rsplit(" ", 1)[1]) for line in merged) == threads.total()


def test_samples_add_up() -> None:
    profile, table = random_profile(random.Random(7))
    lines = lines_of(ExportRequest(recorded(profile, table), Selection(Clock.WALL), unit="samples"))
    assert sum(int(line.rsplit(" ", 1)[1]) for line in lines) == profile.samples


def test_empty_profile_is_an_empty_file() -> None:
    assert lines_of(ExportRequest(recorded(Profile(), SymbolTable()))) == []


def test_names_that_come_late_are_used() -> None:
    profile, _ = small_profile()
    table = SymbolTable(profile.locate)
    assert "main;work 3" not in lines_of(ExportRequest(recorded(profile, table)))
    name_addresses(profile, table)
    assert "main;work 3" in lines_of(ExportRequest(recorded(profile, table)))
