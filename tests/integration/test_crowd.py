"""Many threads asleep in a program that changed its user: the host opens for the agent the files
that tell what each waits in, also where there are more of them than a socket holds
(``tests/targets/crowd.c``)."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest

import receipt
from flametap.capture.live import Capture
from flametap.model import Clock
from flametap.recording.profile.stacks import TRUNCATED
from recording import capturing, doubts, stacks
from running import Start, wait_until

pytestmark = pytest.mark.needs("attach", "gcc", "root")

SLEEPERS = 700
PATIENCE_S = 120.0


def seen(capture: Capture) -> int:
    """How many threads have a stack in the recording."""
    leaves = capture.profile.leaf_weights(Clock.WALL)
    has_stack = leaves.node > TRUNCATED
    return len(np.unique(leaves.thread_id[has_stack]))


def test_each_of_many_sleepers_is_seen_and_none_is_woken(start: Start) -> None:
    target = start("crowd", str(SLEEPERS))
    before = receipt.take_at_rest(target.pid)
    with capturing(target.pid, rate_hz=1000) as capture:
        with contextlib.suppress(AssertionError):
            wait_until(lambda: seen(capture) > SLEEPERS, "every thread's stack", PATIENCE_S)
        assert seen(capture) > SLEEPERS, doubts(capture)
        capture.stop()
        capture.finish_symbols(PATIENCE_S)
        wall = stacks(capture, Clock.WALL)
        counters = capture.status().counters
    assert receipt.harm_after_settling(target.pid, before, timeout_s=60) == []
    assert target.finish() == ["returns 0 eintr 0"]
    assert wall.share("sleep_for_good") > 0.9, doubts(capture)
    assert counters["signals_sent"] < 10, counters
