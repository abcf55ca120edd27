"""Files of other profilers in all commands, on the page, and as recordings of our own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from flametap.cli.main import run
from flametap.foreign.opening import open_file
from flametap.model import Clock
from flametap.recording.opened import is_recording, readable
from foreign_files import exported, random_recording, stacks

Captured = pytest.CaptureFixture[str]


@pytest.fixture
def counts(tmp_path: Path) -> str:
    """A file that counts samples, and knows no moments."""
    frames = [{"name": "main"}, {"name": "work"}]
    profile = {"type": "sampled", "name": "t", "unit": "none", "startValue": 0, "endValue": 1}
    profile |= {"samples": [[0], [0, 1]], "weights": [3, 14_000]}
    data = {"shared": {"frames": frames}, "profiles": [profile], "exporter": "py-spy@0.4.0"}
    path = tmp_path / "counts.speedscope.json"
    path.write_text(json.dumps(data))
    return str(path)


def test_counts_are_shown_as_counts(counts: str, capfd: Captured) -> None:
    assert run(["top", counts]) == 0
    heading, _, _, heaviest, _ = capfd.readouterr().out.splitlines()
    assert heading == "14,003 samples"
    assert heaviest.split() == ["99.98%", "99.98%", "14,000", "14,000", "work"]
    assert run(["info", counts]) == 0
    said = capfd.readouterr().out
    assert "14,003 samples from a file of another profiler: speedscope, by py-spy" in said
    assert "machine:" not in said
    assert "cost" not in said


def test_clock_that_the_file_does_not_have_is_refused(counts: str, capfd: Captured) -> None:
    assert run(["top", counts, "--clock", "off-cpu"]) == 6
    assert "the file has no off-cpu time" in capfd.readouterr().err


def test_it_becomes_a_recording_of_our_own(counts: str, tmp_path: Path, capfd: Captured) -> None:
    kept = str(tmp_path / "kept.flametap")
    assert run(["export", counts, "-o", kept]) == 0
    with readable(kept) as file:
        assert is_recording(file)
    again, status = open_file(kept), open_file(counts).status()
    assert stacks(again) == stacks(open_file(counts))
    assert (again.status().weights, again.status().has_moments) == ("samples", False)
    assert again.status().source == status.source
    capfd.readouterr()
    assert run(["merge", counts, kept, "-o", str(tmp_path / "both.flametap")]) == 1
    assert "'flametap export FILE'" in capfd.readouterr().err


@pytest.mark.parametrize("name", ["out.folded", "out.speedscope.json", "out.pb.gz"])
def test_other_formats_count_the_same(counts: str, tmp_path: Path, name: str) -> None:
    path = str(tmp_path / name)
    assert run(["export", counts, "-q", "-o", path]) == 0
    if name.endswith(".folded"):
        assert Path(path).read_text() == "main 3\nmain;work 14000\n"
        return
    again = open_file(path)
    assert stacks(again) == {("main",): 3, ("main", "work"): 14_000}
    assert again.status().weights == "samples"


def test_files_are_compared_if_they_count_the_same(
    counts: str, tmp_path: Path, capfd: Captured
) -> None:
    assert run(["diff", counts, counts]) == 0
    assert "samples of their own: no function changed" in capfd.readouterr().out
    other = exported(random_recording(1), tmp_path, "x.pb.gz", "pprof", Clock.CPU)
    assert run(["diff", counts, str(other)]) == 2
    assert "samples and cpu time cannot be compared" in capfd.readouterr().err
