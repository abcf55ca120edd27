"""Fixtures for tests that attach to real processes."""

from __future__ import annotations

import os
import socket
import threading

import pytest

from flametap.inject import process, server
from flametap.inject.ways import FRIDA
from target_fixtures import adopt, builder, own_caches, start

__all__ = ["adopt", "builder", "own_caches", "start"]

# How long a recording lasts. The bars of the project hold for FLAMETAP_TEST_SECONDS=10 as well: the
# default keeps the suite short.
SECONDS = float(os.environ.get("FLAMETAP_TEST_SECONDS", "1"))


@pytest.fixture(scope="session")
def seconds() -> float:
    """The length of a recording."""
    return SECONDS


@pytest.fixture
def free_port() -> int:
    """A TCP port nobody uses, for servers that cannot choose one by themselves."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture
def attaches_from_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread of the test attaches by Frida, with which it can interfere, instead of a process."""

    def serve(link: socket.socket, pid: int, way: str) -> None:
        with link:
            server.serve(link, pid, FRIDA)

    def spawn(link: socket.socket, pid: int, way: str) -> None:
        threading.Thread(target=serve, args=(link.dup(), pid, way), daemon=True).start()

    monkeypatch.setattr(process, "spawn", spawn)
