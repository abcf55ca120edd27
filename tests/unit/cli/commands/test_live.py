"""How `flametap live` ends, with a capture and a page that are played."""

from __future__ import annotations

import contextlib
import io
import os
import tempfile
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, cast

import pytest

import wire
from flametap.capture.keeper import Keeper
from flametap.cli.commands import live as command
from flametap.cli.keeping import keeping_for_page
from flametap.cli.main import run
from flametap.cli.outputs import Output
from flametap.cli.progress import Progress
from flametap.cli.signals import Interrupts
from flametap.recording.names.table import SymbolTable
from flametap.recording.opened import open_recording
from flametap.recording.profile.store import Profile
from profiles import apply, small_profile
from recordings import recorded


@contextlib.contextmanager
def nothing(*_: object, **__: object) -> Iterator[object]:
    yield types.SimpleNamespace(command="demo", recording=recorded(*small_profile()))


@pytest.mark.parametrize(("options", "waited"), [(["--exit"], 0), ([], 1)])
def test_page_stays_unless_it_is_to_end(
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    options: list[str],
    waited: int,
) -> None:
    waits, limits, closed = [], [], []

    def wait(_: Interrupts, timeout_s: float) -> bool:
        waits.append(timeout_s)
        return True

    server = types.SimpleNamespace(
        url="http://page", is_exposed=False, close=lambda: closed.append(True)
    )
    monkeypatch.setattr("flametap.web.server.serve", lambda *_, **__: server)
    monkeypatch.setattr("flametap.cli.start.prepared", nothing)
    monkeypatch.setattr("flametap.cli.start.start", lambda *_: None)
    monkeypatch.setattr(command, "verified", nothing)
    monkeypatch.setattr(command, "keeping_for_page", nothing)
    monkeypatch.setattr(command, "watch", lambda *arguments: limits.append(arguments[3]))
    monkeypatch.setattr(command, "finish", lambda *_, **__: 0)
    monkeypatch.setattr(Interrupts, "wait", wait)
    assert run(["1", "-d", "10", "--no-open", *options]) == 0
    out, err = capfd.readouterr()
    assert out == "http://page\n"
    assert ("the page stays" in err) == bool(waited)
    assert (len(waits), limits, closed) == (waited, [10], [True])


class Keeping:
    """A capture that is kept in a file."""

    pid = os.getpid()
    keeper: Keeper | None = None

    def __init__(self) -> None:
        self.recording = recorded(Profile(), SymbolTable())
        self.profile = self.recording.process.profile

    def keep_in(self, file: BinaryIO, path: str, *, with_sources: bool) -> None:
        self.keeper = Keeper(file, path, self.recording, with_sources=with_sources)


@pytest.mark.parametrize(
    ("has_samples", "is_quiet", "outputs", "stays"),
    [
        (True, False, [], True),
        (False, False, [], False),
        (True, True, [], False),
        (True, False, [Output("out.folded", "folded")], False),
    ],
)
def test_recording_is_left_behind(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    has_samples: bool,
    is_quiet: bool,
    outputs: list[Output],
    stays: bool,
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    capture, told = Keeping(), io.StringIO()
    progress = Progress(quiet=is_quiet, stream=told)
    with keeping_for_page(cast(Any, capture), outputs, progress, with_sources=True):
        if has_samples:
            apply(
                capture.profile,
                10**9,
                threads=[wire.thread(1, 101, "main")],
                traces=[wire.trace(1, [wire.frame(0, 0x1000)])],
                intervals=[wire.interval(1, 1, 1_000, 5_000, 4_000)],
            )
    left = list(tmp_path.rglob("*.flametap"))
    assert len(left) == stays
    assert len(list(tmp_path.iterdir())) == stays
    for path in left:
        assert str(path) in told.getvalue()
        assert open_recording(str(path)).process.profile.samples == 1
