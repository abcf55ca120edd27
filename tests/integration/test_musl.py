"""Programs on musl, dynamic and static: no stack ends in its code without unwind information."""

from __future__ import annotations

import pytest

from flametap.capture.live import Capture
from flametap.model import Clock, Verdict
from recording import ENOUGH_CPU_S, doubts, record, share_of, stacks
from running import Start

pytestmark = pytest.mark.needs("attach", "musl-gcc")

BAR = 0.98
CALLS_BAR = 0.95  # of a program that is in all of libc: some large functions end in a guess
VARIANTS = pytest.mark.parametrize("variant", ["musl", "musl-static"])
BUSY = ("memcpy", "memset", "strlen", "qsort", "malloc", "printf", "strtod", "math", "strftime")
WAITS = (
    *("sleep", "nanosleep", "poll", "select", "epoll", "cond", "mutex"),
    *("sem", "read", "fread", "recv", "accept", "join", "sigwait"),
)


def own_frames(stack: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(
        each for each in stack if each.startswith(("thread_", "outer_", "in_", "compare", "main"))
    )


def wrong_stacks(capture: Capture, clock: Clock, names: tuple[str, ...]) -> dict[object, int]:
    """Stacks with other frames of the program than those that call; none of a call may be missing.

    Two frames of musl are above them: ``clone`` and ``start``, or ``_start`` and what calls main.
    """
    seen = stacks(capture, clock).where(lambda stack: own_frames(stack) != ("main",))
    right = {("thread_" + name, "outer_" + name, "in_" + name) for name in names}
    found = {own_frames(stack)[:3] for stack in seen.weights}
    assert right <= found, f"never seen: {right - found}"
    return {
        stack: weight
        for stack, weight in seen.weights.items()
        if own_frames(stack)[:3] not in right
        or stack[2:5] != own_frames(stack)[:3]
        or own_frames(stack)[3:] not in ((), ("compare",))
    }


@VARIANTS
def test_calls_of_libc(start: Start, variant: str, seconds: float) -> None:
    target = start("libc_calls", "busy", variant=variant)
    capture = record(target.pid, seconds, cpu_s=2 * ENOUGH_CPU_S)
    target.finish()
    assert share_of(capture, Verdict.COMPLETE) >= CALLS_BAR, doubts(capture)
    total_ns = stacks(capture).total
    wrong = wrong_stacks(capture, Clock.CPU, BUSY)
    assert sum(wrong.values()) <= (1 - BAR) * total_ns, wrong


@VARIANTS
def test_waits_in_libc(start: Start, variant: str) -> None:
    target = start("libc_calls", "waits", variant=variant)
    capture = record(target.pid, 0.5, samples=len(WAITS))
    target.finish()
    assert not wrong_stacks(capture, Clock.WALL, WAITS)


@VARIANTS
def test_shares_are_true(start: Start, variant: str, seconds: float) -> None:
    """What the program spends in which function is as with glibc."""
    target = start("ratio", variant=variant)
    capture = record(target.pid, seconds, cpu_s=ENOUGH_CPU_S)
    target.finish()
    assert share_of(capture, Verdict.COMPLETE) >= BAR, doubts(capture)
    assert stacks(capture).share("heavy") == pytest.approx(0.75, abs=0.1)
    assert stacks(capture).share("main") >= BAR
