"""``flametap open`` of several files."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from flametap.cli.commands import open as command
from flametap.cli.main import run
from flametap.web.recordings import Recordings
from made_programs import program
from recording_files import write_recording


class Served(Exception):
    """Ends the command where it would serve."""


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What the command asks the server for."""
    found: dict[str, Any] = {"opened": []}
    views = command._views

    def opened(path: str) -> Any:
        found["opened"].append(os.path.basename(path))
        return views(path)

    def serve(shown: Recordings, host: str, port: int, token: str, *, view: str) -> Any:
        found.update(names=shown.names, view=view, shown=shown)
        raise Served

    monkeypatch.setattr(command, "_views", opened)
    monkeypatch.setattr("flametap.web.server.serve", serve)
    return found


@pytest.fixture
def files(tmp_path: Path) -> dict[str, str]:
    return {
        name: str(write_recording(tmp_path / f"{name}.flametap", program({}, seed)))
        for seed, name in enumerate("abc")
    }


def ask(*words: str) -> None:
    with pytest.raises(Served):
        command.open_files.callback(*_parsed(*words))  # type: ignore[misc]


def _parsed(*words: str) -> tuple[Any, ...]:
    context = command.open_files.make_context("open", list(words))
    names = ("paths", "compare", "host", "port", "no_open", "quiet")
    return tuple(context.params[name] for name in names)


def test_one_file_has_no_others(files: dict[str, str], asked: dict[str, Any]) -> None:
    ask(files["a"])
    assert asked["names"] == ["a.flametap"]
    assert asked["view"] == ""


def test_two_files_are_opened_at_the_start(files: dict[str, str], asked: dict[str, Any]) -> None:
    ask(files["b"], files["a"])
    assert asked["names"] == asked["opened"] == ["b.flametap", "a.flametap"]
    assert asked["view"] == ""


def test_more_are_opened_when_they_are_shown(files: dict[str, str], asked: dict[str, Any]) -> None:
    ask(*files.values())
    assert asked["names"] == ["a.flametap", "b.flametap", "c.flametap"]
    assert asked["opened"] == ["a.flametap"]
    asked["shown"].get(3)
    assert asked["opened"] == ["a.flametap", "c.flametap"]


@pytest.mark.parametrize(
    ("shown", "names", "view"),
    [("a", "ac", "file"), ("ab", "abc", "file3"), ("ca", "ca", ""), ("ac", "ac", "file")],
)
def test_comparison_is_on(
    files: dict[str, str], asked: dict[str, Any], shown: str, names: str, view: str
) -> None:
    words = [*(files[name] for name in shown), "--compare", files["c"]]
    if not view:
        assert run(["open", *words]) == 2
        return
    ask(*words)
    assert asked["names"] == [f"{name}.flametap" for name in names]
    assert asked["view"] == f"compare={view}&sort=total"
    assert asked["opened"] == [f"{shown[0]}.flametap", "c.flametap"]


def test_file_that_is_named_twice_is_shown_once(
    files: dict[str, str], asked: dict[str, Any], tmp_path: Path
) -> None:
    link = tmp_path / "link.flametap"
    link.symlink_to(files["a"])
    ask(files["a"], files["b"], str(link), files["a"])
    assert asked["names"] == ["a.flametap", "b.flametap"]


@pytest.mark.parametrize("text", [None, b"", b"some text that is no recording"])
def test_bad_file_is_refused_at_the_start(
    files: dict[str, str],
    asked: dict[str, Any],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    text: bytes | None,
) -> None:
    bad = tmp_path / "bad.flametap"
    if text is not None:
        bad.write_bytes(text)
    assert run(["open", *files.values(), str(bad)]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("flametap: ")
    assert "bad.flametap" in err.splitlines()[0]
    assert asked["opened"] == []


def test_names_have_folders_where_files_are_called_the_same() -> None:
    assert command.names_of(["/x/a", "y/b"]) == ["a", "b"]
    assert command.names_of(["/p/x/a", "/p/y/a", "b"]) == ["x/a", "y/a", "b"]
    assert command.names_of(["/p/x/a", "/q/x/a", "/q/y/a"]) == ["p/x/a", "q/x/a", "y/a"]
    assert command.names_of(["/a", "/x/a", "/x/../a"]) == ["/a", "x/a", "/a"]
    assert command.names_of([os.fsdecode(b"/\xff.flametap")]) == ["?.flametap"]
