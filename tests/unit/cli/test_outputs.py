"""Output files: their formats, names and whether they can be written, before anything is done."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from flametap.cli.outputs import Output, check_writable, plan
from flametap.errors import OutputError, UsageError


def test_formats_come_from_the_names(tmp_path: Path) -> None:
    folded, speedscope = str(tmp_path / "a.folded"), str(tmp_path / "b.speedscope.json")
    assert plan([folded, speedscope, "-"], []) == [
        Output(folded, "folded"),
        Output(speedscope, "speedscope"),
        Output("-", "folded"),
    ]


def test_one_format_for_all_or_one_for_each(tmp_path: Path) -> None:
    a, b = str(tmp_path / "a"), str(tmp_path / "b")
    assert [output.format for output in plan([a, b], ["folded"])] == ["folded", "folded"]
    assert [o.format for o in plan([a, b], ["folded", "speedscope"])] == ["folded", "speedscope"]
    with pytest.raises(UsageError, match="2 formats are given for 1 outputs"):
        plan([a], ["folded", "speedscope"])


def test_no_output_needs_no_plan() -> None:
    assert plan([], []) == []


def test_same_output_twice(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="twice"):
        plan(["-", "-"], [])


def test_patterns_are_filled_in() -> None:
    path = Output("out-%p-%t-100%%-%x.folded", "folded").path_for(42, 0.0)
    assert re.fullmatch(r"out-42-\d{8}-\d{6}-100%-%x\.folded", path)


def test_check_leaves_no_trace(tmp_path: Path) -> None:
    kept = tmp_path / "kept.folded"
    kept.write_text("precious")
    check_writable(str(kept))
    check_writable(str(tmp_path / "new.folded"))
    check_writable("/dev/null")
    assert [path.name for path in tmp_path.iterdir()] == ["kept.folded"]
    assert kept.read_text() == "precious"


def test_relative_path_and_pipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    check_writable("plain.folded")
    os.mkfifo("pipe")
    check_writable("pipe")


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        (".", "is a folder"),
        ("missing/out.folded", "does not exist"),
        ("file/out.folded", "is not a folder"),
        ("/proc/out.folded", ""),
        ("dangling/out.folded", "does not exist"),
    ],
)
def test_unwritable_path_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str, reason: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("file").write_text("")
    Path("dangling").symlink_to("nowhere")
    with pytest.raises(OutputError) as raised:
        check_writable(path)
    assert path in raised.value.message
    assert reason in raised.value.message
    assert raised.value.hint
