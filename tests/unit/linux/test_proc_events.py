"""What the kernel tells of processes that begin, run another program, and end."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from flametap.linux.proc_events import Event, ProcEvents, What
from flametap.linux.process_clock import cpu_ns, shares_memory
from flametap.linux.task_stats import Ended, TaskStats
from running import wait_until

BURNS_NS = 50_000_000
BURN = f"import time\nwhile time.process_time_ns() < {BURNS_NS}: pass"


@pytest.fixture
def events() -> Iterator[ProcEvents]:
    try:
        found = ProcEvents()
    except OSError as error:
        pytest.skip(f"needs CAP_NET_ADMIN and the first pid namespace: {error}")
    yield found
    found.close()


@pytest.fixture
def stats() -> Iterator[TaskStats]:
    try:
        found = TaskStats()
    except OSError as error:
        pytest.skip(f"needs CAP_NET_ADMIN: {error}")
    yield found
    found.close()


def test_each_process_begins_runs_its_program_and_ends(events: ProcEvents) -> None:
    with subprocess.Popen(["sh", "-c", "true; cat"], stdin=subprocess.PIPE) as shell:
        seen: list[Event] = []

        def told(what: What, parent: int = 0) -> list[int]:
            seen.extend(events.read()[0])
            return [e.pid for e in seen if e.what is what and e.parent == parent]

        wait_until(lambda: shell.pid in told(What.REPLACED), "the shell")
        wait_until(lambda: told(What.BEGAN, shell.pid), "a child of the shell")
        assert shell.stdin is not None
        shell.stdin.close()
        wait_until(lambda: shell.pid in told(What.ENDED), "its end")
        child = told(What.BEGAN, shell.pid)[0]
        assert child in told(What.ENDED)
        assert all(0 < each.at_ns <= time.monotonic_ns() for each in seen)


def test_cpu_time_of_what_has_ended_is_exact(stats: TaskStats) -> None:
    with subprocess.Popen([sys.executable, "-c", BURN]) as burner:
        pass
    seen: list[Ended] = []

    def told() -> list[Ended]:
        seen.extend(stats.read()[0])
        return [each for each in seen if each.tid == burner.pid]

    wait_until(told, "its statistics")
    (found,) = told()
    assert found.name.startswith("python")
    assert BURNS_NS <= found.cpu_ns <= found.elapsed_ns + 1_000_000


def test_clock_of_a_process_is_that_of_all_its_threads() -> None:
    with subprocess.Popen([sys.executable, "-c", BURN + "\ninput()"], stdin=-1) as burner:
        wait_until(lambda: (cpu_ns(burner.pid) or 0) >= BURNS_NS, "its CPU time")
        burner.kill()
    assert cpu_ns(burner.pid) is None


def test_memory_of_its_own() -> None:
    with subprocess.Popen(["cat"], stdin=-1) as cat:
        assert not shares_memory(cat.pid, os.getpid())
        assert shares_memory(cat.pid, cat.pid)
        cat.kill()
