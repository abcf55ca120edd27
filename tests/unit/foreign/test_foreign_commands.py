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


def folded(tmp_path: Path, name: str, *lines: str) -> str:
    path = tmp_path / name
    path.write_text("\n".join(lines))
    return str(path)


def test_difference_of_counts_is_written_in_counts(tmp_path: Path, capfd: Captured) -> None:
    before = folded(tmp_path, "a", "a;b 50", "a;c 7")
    after = folded(tmp_path, "b", "a;b 50", "a;c 70")
    out = str(tmp_path / "out.folded")
    assert run(["diff", before, after, "-o", out]) == 0
    assert set(Path(out).read_text().splitlines()) == {"a;b 50 50", "a;c 7 70"}
    assert "s/s" not in capfd.readouterr().out
    picture = str(tmp_path / "out.svg")
    assert run(["diff", before, after, "-q", "-o", picture]) == 0
    assert "70 samples, +" in Path(picture).read_text()


def test_merged_counts_stay_counts(tmp_path: Path, counts: str, capfd: Captured) -> None:
    paths = [folded(tmp_path, "a", "a;b 50"), folded(tmp_path, "b", "a;c 7")]
    kept = [f"{path}.flametap" for path in paths]
    for path, to in zip(paths, kept, strict=True):
        assert run(["export", path, "-o", to]) == 0
    both = str(tmp_path / "both.flametap")
    assert run(["merge", *kept, "-o", both]) == 0
    status = open_file(both).status()
    assert (status.weights, status.source, status.has_moments) == (
        "samples",
        "folded stacks",
        False,
    )
    assert stacks(open_file(both)) == {("a", "b"): 50, ("a", "c"): 7}
    own = exported(random_recording(1), tmp_path, "own.pb.gz", "pprof", Clock.CPU)
    assert run(["export", str(own), "-o", f"{own}.flametap"]) == 0
    capfd.readouterr()
    assert run(["merge", kept[0], f"{own}.flametap", "-o", both]) == 1
    assert "cannot be merged: samples and time by clocks" in capfd.readouterr().err


def test_only_clock_is_shown_whatever_it_is(tmp_path: Path, capfd: Captured) -> None:
    whole = random_recording(2)
    for clock in Clock:
        path = exported(whole, tmp_path, f"{clock.value}.perf-script", "perf-script", clock)
        assert run(["top", str(path)]) == 0
        assert capfd.readouterr().out.startswith(f"{clock.value} time ")
        again = str(tmp_path / "again.perf-script")
        assert run(["export", str(path), "-q", "-o", again]) == 0
        assert stacks(open_file(again), Clock.CPU) == stacks(open_file(str(path)), Clock.CPU)
        assert open_file(again).status().clocks == [clock.value]
    assert run(["top", str(tmp_path / "cpu.perf-script"), "--clock", "off-cpu"]) == 6
    assert "the file has no off-cpu time" in capfd.readouterr().err
    command = ["diff", str(tmp_path / "cpu.perf-script"), str(tmp_path / "wall.perf-script")]
    assert run(command) == 2
    assert "cpu time and wall time cannot be compared" in capfd.readouterr().err


def test_large_counts_are_no_damage(tmp_path: Path, capfd: Captured) -> None:
    assert run(["top", folded(tmp_path, "x", "main;work 5000000000")]) == 0
    assert "5,000,000,000 samples" in capfd.readouterr().out


def test_range_of_a_file_without_moments_is_refused(counts: str, capfd: Captured) -> None:
    assert run(["export", counts, "-o", "-", "--range", "0-1"]) == 2
    assert "does not say when" in capfd.readouterr().err


def test_bytes_stay_bytes_for_firefox(tmp_path: Path) -> None:
    heap = str(Path(__file__).resolve().parents[2] / "data" / "foreign" / "go-heap.pb.gz")
    out = str(tmp_path / "x.firefox.json")
    assert run(["export", heap, "-q", "-o", out]) == 0
    again = open_file(out)
    assert again.status().weights == "bytes"
    assert stacks(again) == stacks(open_file(heap))


def test_page_compares_what_counts_the_same(counts: str, tmp_path: Path, capfd: Captured) -> None:
    other = str(exported(random_recording(1), tmp_path, "x.pb.gz", "pprof", Clock.CPU))
    assert run(["open", counts, "--compare", other, "--no-open"]) == 2
    assert "cpu time and samples cannot be compared" in capfd.readouterr().err
