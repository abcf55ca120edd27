"""Fixtures for tests that attach to real processes."""

from __future__ import annotations

import os
import socket

import pytest

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
