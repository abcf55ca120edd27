"""How `flametap live` ends, with a capture and a page that are played."""

from __future__ import annotations

import contextlib
import types
from collections.abc import Iterator

import pytest

from flametap.cli.commands import live as command
from flametap.cli.main import run
from flametap.cli.signals import Interrupts


@contextlib.contextmanager
def nothing(*_: object) -> Iterator[object]:
    yield types.SimpleNamespace(command="demo")


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
    monkeypatch.setattr(command, "watch", lambda *arguments: limits.append(arguments[3]))
    monkeypatch.setattr(command, "finish", lambda *_, **__: 0)
    monkeypatch.setattr(Interrupts, "wait", wait)
    assert run(["1", "-d", "10", "--no-open", *options]) == 0
    out, err = capfd.readouterr()
    assert out == "http://page\n"
    assert ("the page stays" in err) == bool(waited)
    assert (len(waits), limits, closed) == (waited, [10], [True])
