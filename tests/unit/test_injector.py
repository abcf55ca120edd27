"""What a profiler is told of the process that attaches for it, when it hears nothing of it."""

from __future__ import annotations

import os
import socket

import pytest

from flametap import injector
from flametap.errors import AttachFailedError
from flametap.injector import Injector


def test_silence_is_not_taken_for_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    ends: list[socket.socket] = []
    monkeypatch.setattr(injector, "spawn", lambda link, pid: ends.append(link.dup()))
    monkeypatch.setattr(injector, "ANSWER_TIMEOUT_S", 0.05)
    attaching = Injector(os.getpid())
    try:
        with pytest.raises(AttachFailedError, match="did not answer within"):
            attaching.attach(100.0)
    finally:
        ends[0].close()
        attaching.close()


def test_end_is_told_as_such(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(injector, "spawn", lambda link, pid: None)
    attaching = Injector(os.getpid())
    with pytest.raises(AttachFailedError, match="has ended"):
        attaching.attach(100.0)
    attaching.close()
