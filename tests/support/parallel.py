"""How the suite is dealt out to pytest-xdist's workers (``pytest -n 3``).

A file stays with one worker, as its fixtures are made once; those of ``EACH`` have none that are
dear, and their tests go to any worker. What compares times or shares, or asserts that nothing came
too late, is ``QUIET``: one worker runs all of it, last, and no other test runs meanwhile; that
holds for workers of other checkouts, too. Without workers only the order is another.
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
# Files and tests, each with what a busy machine would spoil.
QUIET = (
    "tests/agent_c/test_eintr.py",  # a signal that has to come within a wait of 600 ms
    "tests/integration/test_cpu_accounting.py",  # CPU time, to a few milliseconds
    "tests/integration/test_completeness.py",  # samples that come in time
    "tests/integration/test_device.py",  # shares
    "tests/integration/test_equation.py",  # times, to one part in a hundred
    "tests/integration/test_far.py::test_connection_that_is_cut_loses_nothing",  # shares
    "tests/integration/test_far.py::test_several_machines_are_one_recording",
    "tests/integration/test_far.py::test_shares_are_those_of_the_program",
    "tests/integration/test_fork.py::test_a_big_process_forks_as_fast_as_ever",
    "tests/integration/test_governor.py::test_rate_is_lowered_until_the_cost_fits",
    "tests/integration/test_no_harm.py::test_output_pauses_no_longer_than_an_attach_takes",
    "tests/integration/test_nothing_lost.py",  # samples that come in time
    "tests/integration/test_parked.py::test_parked_threads_are_never_woken_and_always_seen",
    "tests/integration/test_perf_clock.py",  # samples by the second
    "tests/integration/test_python_stacks.py::"
    "test_threads_that_live_for_milliseconds_have_their_functions",  # met before they end
    "tests/integration/test_record.py::"
    "test_two_functions_with_three_to_one_work_get_three_to_one_cpu",
    "tests/integration/test_truth.py",  # shares
)
# What takes longest is dealt out first, so that no worker waits for the other in the end.
LONGEST = (
    "tests/browser/test_page.py",
    "tests/stress/test_stress.py",
    "tests/integration/test_attach.py",
    "tests/browser/test_page_live.py",
    "tests/browser/test_page_code.py",
    "tests/browser/test_page_line.py",
    "tests/integration/",
    "tests/fuzz/",
    "tests/agent_c/",
)
EACH = ("tests/fuzz/test_replay.py", "tests/stress/test_stress.py")


def unit_of_work(node_id: str) -> str:
    """Return what a test belongs to: tests of one unit run in one worker, one after the other."""
    if node_id.startswith(QUIET):
        return "quiet"
    return node_id if node_id.startswith(EACH) else node_id.partition("::")[0]


def rank(node_id: str) -> int:
    """Return the place of a test in the order in which units are dealt out: quiet ones last."""
    if unit_of_work(node_id) == "quiet":
        return len(LONGEST) + 1
    long = (place for place, entry in enumerate(LONGEST) if node_id.startswith(entry))
    return next(long, len(LONGEST))


@contextmanager
def turn(node_id: str) -> Iterator[None]:
    """Hold back other workers' tests while a quiet one runs, and it until they have ended."""
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
    """Open the lock file. It is in a folder in which others may write, too: no link is followed,
    and what is not ours is not used."""
    lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    found = os.fstat(lock)
    if not stat.S_ISREG(found.st_mode) or found.st_uid != os.getuid():
        os.close(lock)
        raise PermissionError(f"{path} is not a file of ours")
    return lock
