"""``flametap merge`` of files that were made up."""

from __future__ import annotations

from pathlib import Path

import pytest

import flametap
from flametap.analysis.views import views_of
from flametap.cli.main import run
from flametap.errors import OutputError
from flametap.recording.opened import open_recording
from flametap.web.app import create_app
from made_programs import SAMPLE_NS, SAMPLES, program
from recording_files import write_recording

TOKEN = "t"


@pytest.fixture
def paths(tmp_path: Path) -> list[str]:
    made = [program({}, 1), program({"match": 1.6}, 2)]
    return [str(write_recording(tmp_path / f"{at}.flametap", each)) for at, each in enumerate(made)]


def test_whole_opens_in_every_command_and_on_the_page(
    paths: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = str(tmp_path / "whole.flametap")
    assert run(["merge", *paths, "-o", out]) == 0
    assert f"wrote {out}" in capsys.readouterr().err
    for arguments in (["info", out], ["top", out], ["diff", paths[0], out, "--all"]):
        assert run(arguments) == 0
        assert "match" in capsys.readouterr().out or arguments[0] == "info"
    for name in ("x.folded", "x.html", "x.svg", "x.speedscope.json", "x.firefox.json"):
        assert run(["export", out, "-q", "-o", str(tmp_path / name)]) == 0
    client = create_app(views_of(open_recording(out)), TOKEN).test_client()
    client.environ_base["HTTP_AUTHORIZATION"] = f"Bearer {TOKEN}"
    view = client.get("/api/view?clock=cpu&width=1000&table=self").get_json()
    assert view["total_ns"] == 2 * SAMPLES * SAMPLE_NS
    for path in ("status", "threads", "symbols", "gil", "locks", "lanes", "heat", "exports"):
        assert client.get(f"/api/{path}?clock=wall").status_code == 200, path


def test_merged_recording_in_python(paths: list[str]) -> None:
    one, other = map(flametap.load, paths)
    both = one.merge(other)
    assert both.pid == 7
    assert both.tree().total_s == one.tree().total_s + other.tree().total_s
    assert both.duration_s > 0
    kept_in_no_file = flametap.Recording(program({}, 3))
    with pytest.raises(OutputError, match="kept in no file"):
        one.merge(kept_in_no_file)


@pytest.mark.parametrize(
    ("arguments", "code", "word"),
    [
        (["A", "-o", "x.flametap"], 2, "nothing to merge"),
        (["A", "B"], 2, "-o"),
        (["A", "B", "-o", "x.html"], 2, "is no name for a recording"),
        (["A", "B", "-o", "B"], 2, "is one of the recordings to merge"),
        (["A", "B", "A", "-o", "x.flametap"], 2, "is named twice"),
        (["A", "missing.flametap", "-o", "x.flametap"], 1, "cannot read missing.flametap"),
        (["A", "FOREIGN", "-o", "x.flametap"], 1, "is no recording of flametap"),
        (["A", "B", "-o", "nowhere/x.flametap"], 1, "nowhere does not exist"),
    ],
)
def test_bad_input_is_one_line_and_leaves_nothing(
    paths: list[str],
    arguments: list[str],
    code: int,
    word: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    foreign = tmp_path / "foreign.flametap"
    foreign.write_bytes(b"PK\3\4" * 10)
    files = {"A": paths[0], "B": paths[1], "FOREIGN": str(foreign)}
    monkeypatch.chdir(tmp_path)
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    assert run(["merge", *(files.get(each, each) for each in arguments)]) == code
    first, *rest = capsys.readouterr().err.splitlines()
    assert word in first
    assert all(line.startswith("hint: ") for line in rest)
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_file_that_is_there_is_replaced_when_all_is_written(
    paths: list[str], tmp_path: Path
) -> None:
    out = tmp_path / "whole.flametap"
    out.write_bytes(b"old")
    assert run(["merge", *paths, "-q", "-o", str(out)]) == 0
    assert open_recording(str(out)).profile.threads
