"""What a profiler is told of the process that attaches for it, when it hears nothing of it."""

from __future__ import annotations

import json
import os
import socket
import threading

import pytest

from flametap.errors import AttachFailedError
from flametap.inject import client, process
from flametap.inject.client import InjectorClient


def test_silence_is_not_taken_for_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    ends: list[socket.socket] = []
    monkeypatch.setattr(process, "spawn", lambda link, pid, way: ends.append(link.dup()))
    monkeypatch.setattr(client, "ANSWER_TIMEOUT_S", 0.05)
    attaching = InjectorClient(os.getpid())
    try:
        with pytest.raises(AttachFailedError, match="did not answer within"):
            attaching.attach(100.0)
    finally:
        ends[0].close()
        attaching.close()


def test_end_is_told_as_such(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "spawn", lambda link, pid, way: None)
    attaching = InjectorClient(os.getpid())
    with pytest.raises(AttachFailedError, match="has ended"):
        attaching.attach(100.0)
    attaching.close()


def test_end_that_we_asked_for_has_no_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    def spawn(link: socket.socket, pid: int, way: str) -> None:
        threading.Thread(target=answer, args=(link.dup(),), daemon=True).start()

    def answer(link: socket.socket) -> None:
        with link:
            number = json.loads(link.recv(1 << 16))["id"]
            link.send(json.dumps({"id": number, "error": ["AttachFailedError", "no", ""]}).encode())
            link.recv(1 << 16)  # "stop", which is not answered: the connection breaks meanwhile
            link.send(json.dumps({"ended": "the target ended"}).encode())

    monkeypatch.setattr(process, "spawn", spawn)
    attaching = InjectorClient(os.getpid())
    with pytest.raises(AttachFailedError, match="no"):
        attaching.attach(100.0)
    attaching.stop()
    assert attaching.ended.wait(5)
    attaching.close()
    assert attaching.end_reason == ""
