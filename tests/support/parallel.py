"""How the suite is dealt out to pytest-xdist's workers (``pytest -n 2``).

A file stays with one worker, as its fixtures are made once. What attaches to processes, or compares
times with times, is ``QUIET``: one worker runs all of it, last, and no other test runs meanwhile,
since on a busy machine now and then an attach or a detach takes too long. Nothing is left out;
without workers only the order is another.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

TESTS = Path(__file__).parent.parent
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
    folder = os.open(TESTS, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX if is_quiet else fcntl.LOCK_SH)
        yield
    finally:
        # A child that is still there has it open, too.
        fcntl.flock(folder, fcntl.LOCK_UN)
        os.close(folder)
