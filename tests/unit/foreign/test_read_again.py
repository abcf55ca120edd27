"""Formats that are written and read: what was written has the same tree when it is read again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from flametap.errors import InputError
from flametap.export import FORMATS
from flametap.foreign.opening import check_file, open_file
from flametap.model import Clock
from flametap.recording.opened import open_recording
from flametap.recording.recording import Recording
from foreign_files import Stacks, exported, random_recording, stacks
from recording_files import KEPT

WITH_THREADS = ("speedscope", "firefox", "chrome", "pprof")
NS_PER_US = 1000


def recordings() -> list[Recording]:
    return [random_recording(4), open_recording(str(KEPT / "python.flametap"))]


def by_thread(recording: Recording, clock: Clock) -> dict[tuple[str, int], Stacks]:
    found = {}
    for number, thread in recording.profile.threads.items():
        own = stacks(recording, clock, number)
        if own:
            found[thread.name.removesuffix(f" ({thread.tid})"), thread.tid] = own
    return found


@pytest.mark.parametrize("form", WITH_THREADS)
def test_threads_have_the_same_stacks(tmp_path: Path, form: str) -> None:
    for recording in recordings():
        path = exported(recording, tmp_path, f"x{FORMATS[form].extensions[0]}", form, Clock.WALL)
        again = open_file(str(path))
        expected, found = by_thread(recording, Clock.WALL), by_thread(again, Clock.WALL)
        if form == "speedscope":  # which has names only
            assert list(found.values()) == list(expected.values())
        else:
            assert found == expected


def test_cpu_profile_has_those_of_the_heaviest_thread(tmp_path: Path) -> None:
    for recording in recordings():
        path = exported(recording, tmp_path, "x.cpuprofile", "cpuprofile", Clock.CPU)
        expected = max(by_thread(recording, Clock.CPU).values(), key=Stacks.total)
        found = stacks(open_file(str(path)))
        written = json.loads(path.read_bytes())
        idle_us = next(each["hitCount"] for each in written["nodes"] if each["id"] == 2)
        assert found.pop(("(idle)",), 0) == idle_us * NS_PER_US
        assert found.keys() <= expected.keys()
        for stack, weight in expected.items():
            assert found[stack] == pytest.approx(weight, abs=20 * NS_PER_US), stack


@pytest.mark.parametrize("clock", [Clock.CPU, Clock.WALL])
def test_firefox_has_both_clocks(tmp_path: Path, clock: Clock) -> None:
    recording = open_recording(str(KEPT / "python.flametap"))
    path = exported(recording, tmp_path, "x.firefox.json", "firefox", Clock.WALL)
    assert stacks(open_file(str(path)), clock) == stacks(recording, clock)


def test_json_lines_are_no_damaged_file(tmp_path: Path) -> None:
    path = exported(random_recording(1), tmp_path, "x.jsonl", "jsonl", Clock.CPU)
    for attempt in (open_file, check_file):
        with pytest.raises(InputError, match="JSON Lines, which are written only"):
            attempt(str(path))


def test_format_is_recognised_by_its_contents(tmp_path: Path) -> None:
    recording = random_recording(1)
    for form in (*WITH_THREADS, "cpuprofile"):
        path = exported(recording, tmp_path, "no-extension", form, Clock.CPU)
        assert open_file(str(path)).status().source
