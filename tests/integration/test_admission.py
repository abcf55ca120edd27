"""Threads that block all signals are sampled, get their masks back, and lose no signal of the
program's own (``tests/targets/masked.c``)."""

from __future__ import annotations

import signal

import pytest

import kernel
import receipt
from flametap.capture.live import Capture
from flametap.model import Clock
from flametap.perf.events import PerfEvents
from recording import capturing, doubts, stacks
from running import Start, Target, wait_until

pytestmark = pytest.mark.needs("attach", "gcc")

PATIENCE_S = 120.0
WORKERS = ("first", "second")
ENOUGH_NS = 300_000_000


def masks(target: Target) -> list[str]:
    return [kernel.status(target.pid, target.facts[each])["SigBlk"] for each in WORKERS]


def pending(target: Target) -> bool:
    """Whether SIGURG waits at the first worker."""
    found = kernel.status(target.pid, target.facts["first"])["SigPnd"]
    return bool(int(found, 16) & 1 << (signal.SIGURG - 1))


def blocking(capture: Capture, target: Target) -> list[bool]:
    by_tid = {thread.tid: thread.signals_blocked for thread in capture.profile.threads.values()}
    return [by_tid.get(target.facts[each], True) for each in WORKERS]


def worked_ns(capture: Capture) -> float:
    seen = stacks(capture)
    return seen.share("work") * seen.total


def wait_until_admitted(capture: Capture, target: Target) -> None:
    wait_until(lambda: blocking(capture, target) == [False, False], "the workers", PATIENCE_S)


def test_threads_that_block_all_signals_are_sampled(start: Start) -> None:
    target = start("masked")
    before, own = receipt.take(target.pid), masks(target)  # at rest they never are
    with capturing(target.pid) as capture:
        wait_until_admitted(capture, target)
        begun_ns = worked_ns(capture)
        wait_until(
            lambda: worked_ns(capture) - begun_ns > ENOUGH_NS, "samples of workers", PATIENCE_S
        )
        capture.stop()
    assert masks(target) == own, doubts(capture)
    assert capture.status().counters["threads_admitted"] == 2
    assert receipt.harm_after_settling(target.pid, before) == []
    target.finish()


def test_signals_that_the_program_reads_reach_it(start: Start) -> None:
    target = start("masked")
    own = masks(target)
    with capturing(target.pid) as capture:
        wait_until_admitted(capture, target)
        target.say("listen")
        target.say("send", timeout_s=PATIENCE_S)
        assert target.lines[-1] == "send urg 100 winch 100", doubts(capture)
        capture.stop()
    assert masks(target) == own, doubts(capture)
    target.finish()


def test_signal_that_comes_to_an_admitted_thread_waits_there(start: Start) -> None:
    """As without us: blocked and pending. The thread is left alone from then on."""
    target = start("masked")
    own = masks(target)
    with capturing(target.pid) as capture:
        wait_until_admitted(capture, target)

        def is_left_alone() -> bool:
            target.say("direct")  # again: it may meet one of ours, and two that wait are one
            return blocking(capture, target)[0]

        wait_until(is_left_alone, "a thread that is left alone", PATIENCE_S)
        assert masks(target)[0] == own[0]
        assert pending(target)
        capture.stop()
    assert masks(target) == own, doubts(capture)
    target.finish()


def test_thread_that_blocks_them_anew_is_sampled_by_the_kernel(start: Start) -> None:
    """No signal meets it at work, and its mask is not the same for long."""
    try:
        PerfEvents(None, 10**7).close()
    except OSError:
        pytest.skip("the kernel does not let us sample all processes here")
    target = start("reblocks")
    before = receipt.take(target.pid)
    with capturing(target.pid) as capture:
        wait_until(
            lambda: capture.profile.total_ns(Clock.CPU) > 3_000_000_000, "its work", PATIENCE_S
        )
        capture.stop()
        seen = stacks(capture)
        native = capture.profile.verdicts().native
    assert native.get("NO_STACK", 0) < 0.4 * sum(native.values()), doubts(capture)
    long, short = seen.share("long_job"), seen.share("short_job")
    assert long / (long + short) == pytest.approx(0.75, abs=0.1), doubts(capture)
    assert receipt.harm_after_settling(target.pid, before) == []
    target.finish()
