"""The first promise, for each version of CPython: a Python program is never harmed."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import cli
import receipt
from python_targets import ALL, python_of
from recording import capturing, record
from running import Target, wait_until

pytestmark = pytest.mark.needs("attach")

SCRIPT = Path(__file__).parents[1] / "targets" / "python_harm.py"
BRIEF = Path(__file__).parents[1] / "targets" / "python_brief.py"
CYCLES = int(os.environ.get("FLAMETAP_TEST_CYCLES", "3"))


@pytest.fixture(params=ALL)
def worker(
    request: pytest.FixtureRequest, require_capability: Callable[[str], str]
) -> Iterator[Target]:
    """A Python of each version; Python 3.12 and later warn of fork beside threads."""
    target = Target([python_of(request.param, require_capability), "-W", "ignore", SCRIPT])
    try:
        yield target
    finally:
        target.close()


def _harm_to(target: Target) -> list[str]:
    """What went wrong in the program, in its own words."""
    *_, line = target.finish()
    said: dict[str, Any] = json.loads(line)
    found = [
        f"{name} {what} {book[what]} times of {book['returns']}"
        for name, book in said["waits"].items()
        for what in ("eintr", "early")
        if book[what]
    ]
    assert all(book["returns"] > 5 for book in said["waits"].values()), said
    rounds, wrong = said["rounds"]
    children, bad = said["children"]
    sent, got = said["signals"]
    assert min(rounds, children, sent) > 2, said
    found += [f"{wrong} of {rounds} results wrong"] * (wrong != 0)
    found += [f"{bad} of {children} children unwell"] * (bad != 0)
    found += [f"{got} of {sent} signals came"] * (got != sent)
    return found + target.errors


def test_recording_harms_neither_waits_nor_children_nor_signals(
    worker: Target, seconds: float
) -> None:
    before = receipt.take_at_rest(worker.pid)
    capture = record(worker.pid, seconds, rate_hz=1000)
    counters = capture.status().counters
    assert counters["signals_handled"] > 0, counters
    assert counters["codes"] > 0, counters
    assert receipt.harm_after_settling(worker.pid, before) == []
    assert _harm_to(worker) == []


def test_many_attaches_in_a_row_leave_it_healthy(worker: Target) -> None:
    before = receipt.take_at_rest(worker.pid)
    arguments = ("record", "-p", worker.pid, "-d", 0.1, "-r", 1000, "-o", os.devnull, "-q")
    for cycle in range(CYCLES):
        result = cli.run(*arguments, "-f", "folded")
        assert result.exit_code == 0, f"cycle {cycle}: {result.stderr}"
    assert receipt.harm_after_settling(worker.pid, before, attaches=CYCLES) == []
    assert _harm_to(worker) == []


def test_threads_that_end_leave_our_memory_to_those_that_come(
    adopt: Callable[[Target], Target],
) -> None:
    """A thread has some 100 KiB of it; here one thread lives at a time."""
    target = adopt(Target([sys.executable, BRIEF]))
    with capturing(target.pid) as capture:

        def held_bytes(ended_threads: int) -> int:
            wait_until(
                lambda: capture.status().counters.get("threads_exited", 0) >= ended_threads,
                f"{ended_threads} threads have ended",
            )
            return capture.status().counters["bytes_held"]

        at_first = held_bytes(10)
        assert held_bytes(50) < at_first + (1 << 20)
