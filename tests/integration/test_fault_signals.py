"""An attach keeps the disposition of every signal that reports a fault, whatever the main thread
does with it: runtimes live by these signals (``tests/targets/faults.c``)."""

from __future__ import annotations

import os
import signal

import pytest

import cli
import receipt
from nightly import nightly
from running import Start

pytestmark = pytest.mark.needs("attach", "gcc")

FAULTS = ("SIGSEGV", "SIGBUS", "SIGFPE", "SIGILL", "SIGTRAP", "SIGSYS")


def check(start: Start, seconds: float, how: str, *names: str) -> None:
    """Record a target that treats these signals in one way; nothing has changed afterwards."""
    numbers = [int(getattr(signal, name)) for name in names]
    target = start("faults", how, *map(str, numbers))
    before = receipt.take_at_rest(target.pid)
    arguments = ("record", "-p", target.pid, "-d", seconds, "-r", 1000, "-f", "folded")
    result = cli.run(*arguments, "-o", os.devnull, "--verify-detach")
    result.assert_saved()
    # Its worker is in a handler now and then, and blocks that signal meanwhile.
    found = receipt.harm_after_settling(target.pid, before)
    assert [line for line in found if "SigCgt" in line or "SigIgn" in line] == []
    kept = len(numbers) if how == "pending" else 0
    assert target.finish() == [f"rounds some missed 0 lost 0 pending {kept}"]


@pytest.mark.parametrize("name", nightly(*FAULTS))
def test_blocked_signal_keeps_its_handler(start: Start, seconds: float, name: str) -> None:
    check(start, seconds, "block", name)


def test_all_of_them_blocked(start: Start, seconds: float) -> None:
    check(start, seconds, "block", *FAULTS)


@pytest.mark.parametrize("name", ["SIGSEGV", *nightly(*FAULTS[1:])])
def test_ignored_signal_stays_ignored(start: Start, seconds: float, name: str) -> None:
    check(start, seconds, "ignore", name)


def test_signals_that_were_pending_stay_so(start: Start, seconds: float) -> None:
    check(start, seconds, "pending", *FAULTS)
