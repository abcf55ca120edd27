"""Fixtures for tests in which the target, or another user of the machine, attacks flametap."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import other_user
from harm import worker
from running import Target
from target_fixtures import adopt, builder, own_caches, start

__all__ = ["adopt", "builder", "own_caches", "start", "worker"]


@pytest.fixture
def their_folder() -> Iterator[Path]:
    """A folder of ``nobody``'s. Unlike ``tmp_path`` it lies where that user may go."""
    folder = Path(tempfile.mkdtemp(prefix="flametap-hostile-", dir="/tmp"))
    if os.geteuid() == 0:
        os.chown(folder, other_user.UID, other_user.GID)
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def start_theirs(adopt: Callable[[Target], Target]) -> Callable[..., Target]:
    """Start a program of ``nobody``'s; it ends with the test. See ``other_user.start``."""

    def run(*argv: str | Path, **options: bool | Path) -> Target:
        return adopt(other_user.start(argv, **options))  # type: ignore[arg-type]

    return run
