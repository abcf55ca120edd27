"""How `flametap live` ends, with a capture and a page that are played."""

from __future__ import annotations

import contextlib
import io
import os
import resource
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
from flametap.recording.profile.gains import GainMark
from flametap.recording.profile.store import Profile
from profiles import apply, small_profile
from recordings import recorded


@contextlib.contextmanager
def nothing(*_: object, **__: object) -> Iterator[object]:
    yield types.SimpleNamespace(pid=1, command="demo", recording=recorded(*small_profile()))


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
    program = "python"
    keeper: Keeper | None = None

    def __init__(self) -> None:
        self.recording = recorded(Profile(), SymbolTable())
        self.profile = self.recording.profile

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
        assert path.stat().st_mode & 0o777 == 0o600
        assert str(path) in told.getvalue()
        assert open_recording(str(path)).profile.samples == 1


@contextlib.contextmanager
def full_disk() -> Iterator[None]:
    """Let each write to a file fail."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("is_full", [True, False])
def test_page_is_shown_though_no_temporary_file_can_be_made(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, is_full: bool
) -> None:
    folder = tmp_path if is_full else tmp_path / "none"
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    capture, told = Keeping(), io.StringIO()
    keeping = keeping_for_page(cast(Any, capture), [], Progress(stream=told), with_sources=True)
    with full_disk() if is_full else contextlib.nullcontext():
        keeping.__enter__()
    assert capture.keeper is None
    keeping.__exit__(None, None, None)
    assert (
        "cannot save the whole recording: cannot write in the temporary folder" in told.getvalue()
    )
    assert "TMPDIR=FOLDER" in told.getvalue()
    assert not list(tmp_path.iterdir())


def test_temporary_disk_that_becomes_full_costs_no_memory(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    capture, told = Keeping(), io.StringIO()
    progress = Progress(stream=told)
    with keeping_for_page(cast(Any, capture), [], progress, with_sources=True):
        assert capture.keeper is not None
        thread, trace = wire.thread(1, 101, "main"), wire.trace(1, [wire.frame(0, 0x1000)])
        first, second = (wire.interval(1, 1, t0_ns, 5_000, 4_000) for t0_ns in (1_000, 9_000))
        apply(capture.profile, 10**9, threads=[thread], traces=[trace], intervals=[first])
        capture.keeper.step()
        with full_disk():
            capture.keeper.finish()
        assert capture.keeper.error is not None
        apply(capture.profile, 0, intervals=[second])
        assert not len(capture.profile.take_gains(GainMark()).rows.ended)
    assert "cannot write" in told.getvalue()
    (left,) = tmp_path.rglob("*.flametap")
    assert open_recording(str(left)).profile.samples == 1
