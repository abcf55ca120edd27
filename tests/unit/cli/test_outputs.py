"""Output files: their formats, names and whether they can be written, before anything is done."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from flametap.cli.outputs import Output, plan
from flametap.errors import UsageError


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
    path = Output("out-%n-%p-%t-100%%-%x.folded", "folded").path_for("a b/c", 42, 0.0)
    assert re.fullmatch(r"out-a_b_c-42-\d{8}-\d{6}-100%-%x\.folded", path)


@pytest.mark.parametrize("program", ["", "..", "-rf", "/"])
def test_name_of_a_program_never_leads_elsewhere(program: str) -> None:
    path = Output("%n-%p.flametap", "flametap").path_for(program, 42, 0.0)
    assert re.fullmatch(r"\w+-42\.flametap", path)
