"""``flametap diff`` and ``flametap info`` of files that were made up."""

from __future__ import annotations

import gzip
import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

import packed_report
from flametap.cli.main import run
from flametap.model import Clock
from flametap.recording.opened import open_recording
from made_programs import program
from recording_files import write_recording


@pytest.fixture
def before(tmp_path: Path) -> str:
    return str(write_recording(tmp_path / "before.flametap", program({}, 1)))


@pytest.fixture
def after(tmp_path: Path) -> str:
    return str(write_recording(tmp_path / "after.flametap", program({"match": 1.6}, 2)))


def test_what_changed_most_comes_first(
    before: str, after: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["diff", before, after]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    title, head, first, *_ = out.splitlines()
    assert title == "cpu time of their own:"
    assert re.match(r" +points +before +after", head)
    assert re.search(r"^ +\+\d\.\d\d .*  match  prog$", first), out
    assert "cpu time with what they call:" in out


def test_nothing_changed(before: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["diff", before, before, "--fail-above", "0"]) == 0
    assert capsys.readouterr().out.count("no function changed by more than chance") == 2
    assert run(["diff", before, before, "--all"]) == 0
    assert "(may be chance)" in capsys.readouterr().out


def test_growth_beyond_a_limit_has_an_exit_code_of_its_own(
    before: str, after: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["diff", before, after, "-q", "--fail-above", "5%"]) == 8
    out, err = capsys.readouterr()
    assert out == ""
    assert re.match(r"flametap: match has grown by \d\.\d\d percentage points", err)
    assert run(["diff", before, after, "-q", "--fail-above", "20"]) == 0
    assert run(["diff", after, before, "-q", "--fail-above", "5%"]) == 0
    assert run(["diff", after, before, "--fail-above", "many"]) == 2


def test_stacks_with_both_weights(before: str, after: str, tmp_path: Path) -> None:
    path = tmp_path / "diff.folded.gz"
    assert run(["diff", before, after, "-q", "-o", str(path)]) == 0
    text = gzip.decompress(path.read_bytes()).decode()
    lines = dict(line.split(" ", 1) for line in text.splitlines())
    weights = {stack: [int(each) for each in both.split()] for stack, both in lines.items()}
    assert sum(each[0] for each in weights.values()) == 40_000_000
    assert sum(each[1] for each in weights.values()) == 40_000_000
    less, more = weights["main;match"]
    assert more > 1.2 * less


def test_graph_is_red_where_it_grew(before: str, after: str, tmp_path: Path) -> None:
    path = tmp_path / "diff.svg"
    assert run(["diff", before, after, "-q", "-o", str(path)]) == 0
    svg = "{http://www.w3.org/2000/svg}"
    colors = {}
    for group in ET.parse(path).getroot().iter(f"{svg}g"):
        name, rect = group.find(f"{svg}title"), group.find(f"{svg}rect")
        assert name is not None
        assert name.text is not None
        assert rect is not None
        red, _, blue = map(int, re.findall(r"\d+", rect.attrib["fill"]))
        colors[name.text.partition(":")[0]] = red - blue
        if name.text.startswith("match"):
            assert re.search(r"\+\d\.\d\d points", name.text)
    assert colors["match"] > 40
    assert colors["hash"] < 0


def test_page_in_one_file_has_both_sides(before: str, after: str, tmp_path: Path) -> None:
    path = tmp_path / "diff.html"
    # A name that would end its attribute.
    hostile = str(Path(before).rename(tmp_path / '"><script>alert(1)<.flametap'))
    assert run(["diff", hostile, after, "-q", "--clock", "wall", "-o", str(path)]) == 0
    text = path.read_text()
    assert "<script>alert" not in text
    report = packed_report.read(text)
    assert report.clock == "wall"
    for clock in Clock:
        here, there = report.sides(clock.value)
        assert here == report.stacks(clock.value)
        for side, file in ((here, after), (there, hostile)):
            assert side.total() == open_recording(file).profile.total_ns(clock)
    here, there = report.sides("cpu")
    assert here["main", "match"] > 1.2 * there["main", "match"]
    assert report.data["compared"]["lengths_ns"] == [40_000_000_000] * 2
    own, total = report.part("spreads")["cpu"]
    assert len(own) == len(total) == len(report.names["functions"]["name"])
    assert all(1 <= each < 3 for each in (*own, *total))


@pytest.mark.parametrize(
    ("arguments", "code", "word"),
    [
        (["missing.flametap", "BEFORE"], 1, "cannot read missing.flametap"),
        (["BEFORE", "BEFORE", "-o", "x.docx"], 2, "tells no format"),
        (["BEFORE"], 2, "AFTER"),
        (["BEFORE", "BEFORE", "--tid", "99"], 6, "no thread matches"),
    ],
)
def test_bad_input_is_one_line(
    before: str,
    arguments: list[str],
    code: int,
    word: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["diff", *(before if each == "BEFORE" else each for each in arguments)]) == code
    assert word in capsys.readouterr().err


def test_info_says_what_a_recording_is_of(before: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["info", before]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    facts = dict(line.split(":", 1) for line in out.splitlines() if ":" in line)
    assert facts["command"].strip() == "/opt/prog"
    assert facts["process"].strip() == "7"
    assert facts["threads"].strip() == "1"
    assert facts["made by"].strip().startswith("flametap ")
    assert "recorded 40.0 s of 1 thread: 40.0 s of CPU time" in out
