"""Fixtures for tests with targets: programs that are compiled, started, and ended with the test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from running import Start, Target
from targetbuild import Builder, BuildError


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
