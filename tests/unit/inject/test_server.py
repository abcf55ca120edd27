"""What the process that attaches answers, whatever becomes of the session."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from typing import Any, cast

import pytest

from flametap.errors import CannotAttachError
from flametap.inject import server
from flametap.inject.link.injector import Injector
from flametap.inject.rpc import MAX_PACKET_BYTES, decode, encode

REASON = "there is no place"


class FakeSession:
    """A session with nobody."""

    def __init__(self, pid: int, injector: Injector) -> None:
        self.pid = pid
        self.ended = threading.Event()
        self.end_reason = ""
        self.calls: list[str] = []

    def attach(self, rate_hz: float) -> int:
        self.calls.append("attach")
        if rate_hz > 1000:
            raise CannotAttachError("no", "less")
        if rate_hz < 1:
            raise ZeroDivisionError("odd")
        return os.open(os.devnull, os.O_RDONLY)

    def stop(self) -> str:
        self.calls.append("stop")
        return "a note"

    def detach(self) -> None:
        self.calls.append("detach")
        self.ended.set()

    def give_up(self) -> None:
        self.calls.append("give_up")

    def close(self) -> None:
        self.calls.append("close")
        self.ended.set()


@pytest.fixture
def link(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[socket.socket, list[FakeSession]]]:
    """Our end of a connection to a server, and the session that it has."""
    made: list[FakeSession] = []

    def session(pid: int, injector: Injector) -> FakeSession:
        made.append(FakeSession(pid, injector))
        return made[-1]

    monkeypatch.setattr(server, "injector_for", lambda pid, way: (cast(Injector, None), REASON))
    monkeypatch.setattr(server, "Session", session)
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    serving = threading.Thread(target=server.serve, args=(theirs, os.getpid()))
    serving.start()
    with ours, theirs:
        ours.settimeout(60)
        yield ours, made
        ours.close()
        serving.join(60)
        assert not serving.is_alive()


def ask(link: socket.socket, call: str, *arguments: object) -> tuple[dict[str, Any], int]:
    """The answer, and how many descriptors came with it."""
    link.send(encode({"id": 7, "call": call, "arguments": arguments}))
    packet, descriptors, _, _ = socket.recv_fds(link, MAX_PACKET_BYTES, 4)
    for descriptor in descriptors:
        os.close(descriptor)
    answer = decode(packet)
    assert answer["id"] == 7
    return answer, len(descriptors)


def test_attach_is_answered_with_the_ring_and_why_it_is_fridas_way(
    link: tuple[socket.socket, list[FakeSession]],
) -> None:
    answer, count = ask(link[0], "attach", 100.0)
    assert (answer["answer"], count) == (REASON, 1)
    assert ask(link[0], "stop")[0]["answer"] == "a note"


def test_end_is_told_with_its_reason(link: tuple[socket.socket, list[FakeSession]]) -> None:
    ask(link[0], "attach", 100.0)
    link[1][0].end_reason = "the target ended"
    link[1][0].ended.set()
    assert decode(link[0].recv(MAX_PACKET_BYTES)) == {"ended": "the target ended"}


@pytest.mark.parametrize(
    ("call", "arguments", "said"),
    [
        ("attach", (5000.0,), ["CannotAttachError", "no", "less"]),
        ("attach", (0.0,), ["AttachFailedError", "ZeroDivisionError: odd", "the target continues"]),
        ("close", (), ["AttachFailedError", "no such call: close", ""]),
        ("__class__", (), ["AttachFailedError", "no such call: __class__", ""]),
    ],
)
def test_errors_are_answers(
    link: tuple[socket.socket, list[FakeSession]],
    call: str,
    arguments: tuple[object, ...],
    said: list[str],
) -> None:
    answer, count = ask(link[0], call, *arguments)
    assert (answer["error"], count) == (said, 0)


def test_session_is_stopped_and_closed_when_the_profiler_is_gone(
    link: tuple[socket.socket, list[FakeSession]],
) -> None:
    ask(link[0], "attach", 100.0)
    link[0].shutdown(socket.SHUT_RDWR)
    assert link[1][0].ended.wait(60)
    assert link[1][0].calls == ["attach", "stop", "close"]
