"""How the suite is dealt out to pytest-xdist's workers (``pytest -n 2``), which halves its time.

A file stays with one worker, as its fixtures are made once; only the scenarios of the stress tests,
which are long and share nothing, are dealt out one by one. What compares times with times, or
counts on most of a CPU, is ``QUIET``: one worker runs all of it, last, and no other test runs
meanwhile. Nothing is left out; without workers only the order is another.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

TESTS = Path(__file__).parent.parent
QUIET = frozenset(
    f"tests/integration/{name}.py"
    for name in (
        "test_code",
        "test_completeness",
        "test_cpu_accounting",
        "test_fork",
        "test_governor",
        "test_record",
    )
)


def unit_of_work(node_id: str) -> str:
    """What a test belongs to: tests of one unit run in one worker, one after the other."""
    path = node_id.partition("::")[0]
    if path in QUIET:
        return "quiet"
    return node_id if path.startswith("tests/stress/") else path


def rank(node_id: str) -> int:
    """The order in which units are dealt out: single tests behind whole files, so that no worker
    is left with much at the end; quiet ones last."""
    unit = unit_of_work(node_id)
    return 2 if unit == "quiet" else int(unit == node_id)


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
