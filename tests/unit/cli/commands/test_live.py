"""How `flametap live` ends, with a capture and a page that are played."""

from __future__ import annotations

import contextlib
import os
import signal
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from flametap.cli.commands import live as command
from flametap.cli.main import run
from flametap.cli.signals import Interrupts
from profiles import small_profile
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
    monkeypatch.setattr(command, "keeping", nothing)
    monkeypatch.setattr(command, "watch", lambda *arguments: limits.append(arguments[3]))
    monkeypatch.setattr(command, "finish", lambda *_, **__: 0)
    monkeypatch.setattr(Interrupts, "wait", wait)
    assert run(["1", "-d", "10", "--no-open", *options]) == 0
    out, err = capfd.readouterr()
    assert out == "http://page\n"
    assert ("the page stays" in err) == bool(waited)
    assert (len(waits), limits, closed) == (waited, [10], [True])


@pytest.mark.parametrize(
    ("number", "options", "lingers"),
    [(signal.SIGINT, [], 1), (signal.SIGTERM, [], 0), (signal.SIGINT, ["-o", "OUTPUT"], 0)],
)
def test_page_may_save_after_ctrl_c_unless_a_file_is_written(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    number: signal.Signals,
    options: list[str],
    lingers: int,
) -> None:
    asked: list[Any] = []

    def watch(capture: object, interrupts: Interrupts, *_: object) -> None:
        os.kill(os.getpid(), number)
        interrupts.wait(10)

    server = types.SimpleNamespace(
        url="http://page", is_exposed=False, close=lambda: None, linger=asked.append
    )
    monkeypatch.setattr("flametap.web.server.serve", lambda *_, **__: server)
    monkeypatch.setattr("flametap.cli.start.prepared", nothing)
    monkeypatch.setattr("flametap.cli.start.start", lambda *_: None)
    monkeypatch.setattr(command, "verified", nothing)
    monkeypatch.setattr(command, "keeping", nothing)
    monkeypatch.setattr(command, "watch", watch)
    monkeypatch.setattr(command, "finish", lambda *_, **__: 0)
    named = [str(tmp_path / "out.folded") if word == "OUTPUT" else word for word in options]
    assert run(["1", "--no-open", *named]) == 0
    assert len(asked) == lingers
    assert not any(is_impatient() for is_impatient in asked)
