"""Fixtures for tests that attach to real processes."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from running import Start, Target
from targetbuild import Builder, BuildError

# How long a recording lasts. The bars of the project hold for FLAMETAP_TEST_SECONDS=10 as well: the
# default keeps the suite short.
SECONDS = float(os.environ.get("FLAMETAP_TEST_SECONDS", "1"))


@pytest.fixture(scope="session")
def seconds() -> float:
    """The length of a recording."""
    return SECONDS


@pytest.fixture(scope="session", autouse=True)
def own_caches(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The tests' symbol cache begins empty and is not the user's."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="session")
def builder() -> Builder:
    """Compile targets."""
    return Builder()


@pytest.fixture
def free_port() -> int:
    """A TCP port nobody uses, for servers that cannot choose one by themselves."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture
def adopt() -> Iterator[Callable[[Target], Target]]:
    """Take care of a target that the test has started: it ends with the test."""
    adopted: list[Target] = []

    def take(target: Target) -> Target:
        adopted.append(target)
        return target

    yield take
    for target in reversed(adopted):
        target.close()


@pytest.fixture
def start(builder: Builder, adopt: Callable[[Target], Target]) -> Start:
    """Build and start a target and wait until it is ready."""

    def run(name: str, *arguments: str, variant: str = "") -> Target:
        try:
            program: Path = builder.program(name, variant)
        except BuildError as error:
            pytest.fail(str(error), pytrace=False)
        return adopt(Target([program, *arguments]))

    return run
