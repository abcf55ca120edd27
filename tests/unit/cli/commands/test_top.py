"""``flametap top`` of a file that was made up."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from flametap.cli.main import run
from made_programs import FUNCTIONS, program
from recording_files import write_recording


@pytest.fixture
def path(tmp_path: Path) -> str:
    shares = {"match": 4.0, "sort": 0.01}
    return str(write_recording(tmp_path / "made.flametap", program(shares, 1)))


def rows(out: str) -> list[list[str]]:
    return [line.split() for line in out.splitlines()[3:]]


def test_heaviest_functions_come_first(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["top", path]) == 0
    out = capsys.readouterr().out
    assert out.startswith("/opt/prog (7): 40.0 s, 1 thread, cpu time 40.0 s\n")
    assert rows(out)[0][-2:] == ["match", "prog"]
    own = [float(row[0].rstrip("%")) for row in rows(out)]
    assert own == sorted(own, reverse=True)
    assert sum(own) == pytest.approx(100, abs=0.1)
    assert len(own) == len(FUNCTIONS)


def test_order_and_number_of_rows(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["top", path, "--by", "total", "-n", "1"]) == 0
    (row,) = rows(capsys.readouterr().out)
    assert row[:2] == ["0.00%", "100.00%"]
    assert row[-2] == "main"


def test_lines_have_their_files(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["top", path, "--lines", "-n", "1"]) == 0
    out = capsys.readouterr().out
    assert re.search(r"match \(src/match\.c:3\) +prog$", out), out


def test_what_is_not_there(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["top", path, "--thread", "nobody"]) == 6
    assert "no thread matches" in capsys.readouterr().err
    assert run(["top", "/nowhere/x.flametap"]) == 1
    assert "cannot read /nowhere/x.flametap" in capsys.readouterr().err
