"""Recordings that were made once are read as they were then: old files stay good.

``tests/data/recordings`` has them. They are never made again: a change that reads them otherwise
breaks the recordings of users.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from flametap.analysis.views import views_of
from flametap.model import Clock
from flametap.recording.chunks import ChunkReader
from flametap.recording.opened import open_recording
from flametap.recording.reader import CUT_OFF
from flametap.tree.selection import Selection
from recording_files import KEPT, what_it_says

EXPECTED = json.loads((KEPT / "expected.json").read_text("utf-8"))
MAX_BYTES = 30_000


def test_all_files_have_expected_values() -> None:
    assert sorted(EXPECTED) == sorted(each.name for each in KEPT.glob("*.flametap"))
    assert all((KEPT / name).stat().st_size <= MAX_BYTES for name in EXPECTED)


@pytest.mark.parametrize("name", EXPECTED)
def test_recording_reads_as_it_did(name: str) -> None:
    found = what_it_says(open_recording(str(KEPT / name)))
    assert json.loads(json.dumps(found)) == EXPECTED[name]


@pytest.mark.parametrize("name", EXPECTED)
def test_sums_of_threads_are_those_of_trees(name: str) -> None:
    clocks = EXPECTED[name]["clocks"]
    for at, clock in enumerate(Clock, 1):
        assert (
            sum(each[at] for each in EXPECTED[name]["threads"]) == clocks[clock.value]["total_ns"]
        )


def test_texts_and_instructions_are_read() -> None:
    recording = open_recording(str(KEPT / "c.flametap"))
    names = [each.name for each in recording.functions]
    lines = views_of(recording).lines(names.index("spin"), Selection())
    assert any("6364136223846793005" in (each.text or "") for each in lines.lines)
    found = views_of(recording).instructions(names.index("spin"), Selection())
    assert sum(each.self_ns for each in found.rows) > 0


def test_cut_recording_has_what_was_before(tmp_path: Path) -> None:
    data = (KEPT / "c.flametap").read_bytes()
    with (KEPT / "c.flametap").open("rb") as file:
        gains = [each.offset for each in ChunkReader(file, "c") if each.kind == "GAIN"]
    path = tmp_path / "cut.flametap"
    path.write_bytes(data[: gains[len(gains) // 2] + 100])
    found = what_it_says(open_recording(str(path)))
    assert found["ended"] == CUT_OFF
    assert [each[0] for each in found["threads"]] == ["sample", "waiter", "sleeper"]
    assert 0.4 < found["duration_ns"] / EXPECTED["c.flametap"]["duration_ns"] < 0.6
