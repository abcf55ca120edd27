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
FOLDER = "tests/integration"
QUIET = (
    "tests/agent_c/test_eintr.py",  # a signal that has to come within a wait of 600 ms
    f"{FOLDER}/test_cpu_accounting.py",  # CPU time by the kernel's clocks and ours, within ticks
    f"{FOLDER}/test_governor.py",  # what sampling costs at high rates
    f"{FOLDER}/test_real_targets.py",  # completeness: each thread that runs has to be met
    f"{FOLDER}/test_nothing_lost.py",  # 50 and 400 ms of work; stopped time
    f"{FOLDER}/test_record.py::test_two_functions_with_three_to_one_work_get_three_to_one_cpu",
    f"{FOLDER}/test_fork.py::test_a_big_process_forks_as_fast_as_ever",
)


def unit_of_work(node_id: str) -> str:
    """What a test belongs to: tests of one unit run in one worker, one after the other."""
    if node_id.startswith(QUIET):
        return "quiet"
    path = node_id.partition("::")[0]
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
