"""Why a session ended, when its thread in the target does not answer any more."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from types import SimpleNamespace
from typing import cast

import pytest

from flametap.inject.link import session as session_module
from flametap.inject.link.control import Control
from flametap.inject.link.endings import END_REASONS
from flametap.inject.link.injector import Injector
from flametap.inject.link.session import Session
from flametap.linux.brief_stop import BriefStop
from running import wait_until


class FakeInjector:
    """Brings nothing in."""

    memory = None

    def __init__(self, pid: int) -> None:
        self.stopper = BriefStop(pid)
        self.calls: list[str] = []

    def ask_alternate(self, tid: int) -> None:
        """Nobody answers."""

    def ask_no_more(self) -> None:
        """Nobody would."""

    def leave(self) -> None:
        self.calls.append("leave")

    def close(self) -> None:
        self.calls.append("close")


@pytest.fixture
def target() -> Iterator[subprocess.Popen[bytes]]:
    """A shell that becomes another program when told to."""
    command = ["sh", "-c", "echo ready; read line; exec cat"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        yield process
        process.kill()


def session_with(target: subprocess.Popen[bytes]) -> tuple[Session, FakeInjector]:
    """A session that has not begun."""
    injector = FakeInjector(target.pid)
    return Session(target.pid, cast(Injector, injector)), injector


def test_exec_is_told(target: subprocess.Popen[bytes]) -> None:
    session, _ = session_with(target)
    assert target.stdin is not None
    target.stdin.write(b"go\n")
    target.stdin.flush()
    wait_until(session.is_replaced, "the other program")
    assert session._reason() == END_REASONS["process-replaced"]


def test_exit_is_told_also_while_nobody_has_reaped_the_process(
    target: subprocess.Popen[bytes],
) -> None:
    session, _ = session_with(target)
    target.kill()
    assert session._reason() == END_REASONS["process-terminated"]


def test_thread_that_ended_alone_is_a_lost_connection(
    target: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_module, "REASON_LIMIT_S", 0.05)
    session, _ = session_with(target)
    control = cast(Control, SimpleNamespace(is_alive=lambda: False))
    session._control = control
    session._watch()
    assert session.ended.is_set()
    assert session.end_reason == END_REASONS["connection-terminated"]


def test_session_that_never_began_ends_quietly(target: subprocess.Popen[bytes]) -> None:
    session, injector = session_with(target)
    session.set_paused(True)
    session.set_rate(10)
    session.set_recipes([["1"]])
    assert session.stop() == ""
    session.close()
    session.close()
    assert session.ended.is_set()
    assert injector.calls == ["leave", "close"] * 2
