"""``flametap export`` of a file that was made up: the shape of its stacks."""

from __future__ import annotations

from pathlib import Path

import pytest

from flametap.cli.main import run
from made_programs import SAMPLE_NS, SAMPLES, program
from recording_files import write_recording


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    return write_recording(tmp_path / "a.flametap", program({"parse": 3.0, "match": 1.0}, 1))


def folded(kept: Path, *options: str) -> dict[str, int]:
    out = kept.parent / "out.folded"
    assert run(["export", "-q", str(kept), "-o", str(out), *options]) == 0
    rows = (line.rpartition(" ") for line in out.read_text("utf-8").splitlines())
    return {stack: int(weight) for stack, _, weight in rows}


def test_stacks_are_those_of_the_page(kept: Path) -> None:
    whole = folded(kept)
    assert sum(whole.values()) == SAMPLES * SAMPLE_NS // 1000
    assert {stack.split(";")[0] for stack in whole} == {"main"}
    without = folded(kept, "--shape", "without:parse@prog")
    assert without == {stack: each for stack, each in whole.items() if "parse" not in stack}
    hidden = folded(kept, "--shape", "hide:?parse;hide:?match")
    assert hidden["main"] == whole["main;parse"] + whole["main;match"]
    turned = folded(kept, "--shape", "inverted")
    assert turned == {";".join(reversed(stack.split(";"))): each for stack, each in whole.items()}


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        ("turn", "shape has steps hide, fold"),
        ("hide", "the step hide needs a target"),
        ("only:nothing", "the recording has no function nothing"),
        ("only:?re:(", "--shape: "),
    ],
)
def test_steps_that_mean_nothing_are_refused(
    kept: Path, steps: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    out = kept.parent / "out.folded"
    assert run(["export", str(kept), "-o", str(out), "--shape", steps]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") <= 2
    assert not out.exists()
