"""How the suite is dealt out to pytest-xdist's workers (``pytest -n 2``).

A file stays with one worker, as its fixtures are made once. What attaches to processes, or compares
times with times, is ``QUIET``: one worker runs all of it, last, and no other test runs meanwhile,
since on a busy machine now and then an attach or a detach takes too long; that holds for workers of
other checkouts, too. Nothing is left out; without workers only the order is another.
"""

from __future__ import annotations

import fcntl
import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

# One for all checkouts of a user: two on one machine would disturb each other as two workers would.
LOCK = Path(tempfile.gettempdir(), f"flametap-tests-{os.getuid()}.lock")
QUIET = (
    "tests/agent_c/test_eintr.py",  # a signal that has to come within a wait of 600 ms
    "tests/integration/",
    "tests/stress/",
)


def unit_of_work(node_id: str) -> str:
    """What a test belongs to: tests of one unit run in one worker, one after the other."""
    if node_id.startswith(QUIET):
        return "quiet"
    return node_id.partition("::")[0]


def rank(node_id: str) -> int:
    """The order in which units are dealt out: quiet ones last."""
    return int(unit_of_work(node_id) == "quiet")


@contextmanager
def turn(node_id: str) -> Iterator[None]:
    """Holds back other workers' tests while a quiet one runs, and it until they have ended."""
    if "PYTEST_XDIST_WORKER" not in os.environ:
        yield
        return
    is_quiet = unit_of_work(node_id) == "quiet"
    lock = open_lock(LOCK)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX if is_quiet else fcntl.LOCK_SH)
        yield
    finally:
        # A child that is still there has it open, too.
        fcntl.flock(lock, fcntl.LOCK_UN)
        os.close(lock)


def open_lock(path: Path) -> int:
    """Opens the lock file. It is in a folder in which others may write, too: no link is followed,
    and what is not ours is not used."""
    lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    found = os.fstat(lock)
    if not stat.S_ISREG(found.st_mode) or found.st_uid != os.getuid():
        os.close(lock)
        raise PermissionError(f"{path} is not a file of ours")
    return lock
