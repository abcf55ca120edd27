"""Threads that start after the attach, and whose alternate signal stacks nobody asked for: two that
share one, and one whose is too small for a signal's frame (``tests/targets/late.c``)."""

from __future__ import annotations

import pytest

import kernel
import receipt
from flametap.capture.live import Capture
from flametap.model import Clock
from recording import capturing, stacks
from running import Start, Target, wait_until

pytestmark = pytest.mark.needs("attach", "gcc")

ANSWER_S = 120.0
PATIENCE_S = 60.0
ENOUGH_CPU_NS = 1_000_000_000


def begin(target: Target) -> list[int]:
    """Have its threads start; return their numbers."""
    target.say("begin", ANSWER_S)
    word, *tids = target.lines[-1].split()
    if word != "begun":
        pytest.skip("the kernel takes no alternate stack of 2 KB")
    return [int(tid) for tid in tids]


def wait_for_work(target: Target) -> None:
    """Wait until the target has used some CPU time, or has ended."""
    used_ns = kernel.process_cpu_ns(target.pid)
    wait_until(
        lambda: not target.alive or kernel.process_cpu_ns(target.pid) > used_ns + ENOUGH_CPU_NS,
        "1 s of CPU time",
        PATIENCE_S,
    )
    assert target.alive, f"it ended with {target.exit_code}"


def has_stack(capture: Capture, tid: int) -> bool:
    """Has the thread answered a signal?"""
    if tid not in [info.tid for info in capture.profile.thread_infos()]:
        return False
    return any("[unattributed]" not in stack for stack in stacks(capture, Clock.CPU, tid).weights)


def assert_unharmed(target: Target, before: receipt.Receipt, handlers: str) -> None:
    found = receipt.harm_after_settling(target.pid, before, timeout_s=60, own_threads="late")
    assert found == []
    assert target.finish()[-1] == f"wrong 0 spoilt 0 handlers {handlers}"


@pytest.mark.parametrize("kind", ["shared", "tiny"])
def test_stacks_known_as_unfit_stay_unused_when_handlers_come(start: Start, kind: str) -> None:
    target = start("late", kind, "after")
    before = receipt.take_at_rest(target.pid)
    with capturing(target.pid, rate_hz=1000) as capture:
        tids = begin(target)
        wait_until(lambda: all(has_stack(capture, tid) for tid in tids), "stacks", PATIENCE_S)
        target.say("install", ANSWER_S)
        wait_for_work(target)
        capture.stop()
    assert_unharmed(target, before, "ran")


def test_tiny_stack_for_faults_stays_unused(start: Start) -> None:
    target = start("late", "tiny", "fault")
    before = receipt.take_at_rest(target.pid)
    with capturing(target.pid, rate_hz=1000) as capture:
        begin(target)
        wait_for_work(target)
        capture.stop()
    assert_unharmed(target, before, "none")
