"""Recordings through the Python interface, as the live page makes them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from flametap.analysis.views import views_of
from flametap.capture.capture_options import CaptureOptions
from flametap.capture.live import Capture
from flametap.model import Clock, Verdict
from flametap.tree.selection import Selection
from running import wait_until
from stacks import Stacks, of_tree

# The way in of all tests that choose none: "frida" tries that one.
WAY = os.environ.get("FLAMETAP_TEST_WAY", "auto")
SYMBOLS_S = 60.0
ENOUGH_S = 60.0
# What takes one part in a hundred is missed by 800 samples in one of 3 000 recordings, by 300 in
# one of 20.
ENOUGH_CPU_S = 0.8
# CPU time between a thread's last sample and the end of the recording has no stack: some
# milliseconds a thread, much of what a short recording holds on a machine that is busy otherwise.
TAIL_NS = 20_000_000


@contextmanager
def capturing(
    pid: int,
    *,
    rate_hz: float = 1000.0,
    budget_ppm: int = 0,
    inlines: bool = True,
    way: str = WAY,
) -> Iterator[Capture]:
    """Attaches and samples while the block runs; then stops, detaches and finishes the symbols.

    The capture stays readable after the block, until the context is left.
    """
    options = CaptureOptions(rate_hz=rate_hz, budget_ppm=budget_ppm, inlines=inlines, inject=way)
    capture = Capture(pid, options)
    try:
        capture.start()
        yield capture
    finally:
        capture.close()


def record(
    pid: int, seconds: float, *, rate_hz: float = 1000.0, cpu_s: float = 0.0, samples: int = 0
) -> Capture:
    """Record for some seconds and detaches. The result holds the profile and all names.

    Where the machine is busy otherwise it goes on until the target has used ``cpu_s`` of CPU time,
    and so many stacks were taken.
    """
    with capturing(pid, rate_hz=rate_hz) as capture:
        assert not capture.wait(seconds), f"the target has gone: {capture.status().reason}"
        wait_until(
            lambda: capture.profile.total_ns(Clock.CPU) >= cpu_s * 1e9,
            f"{cpu_s:g} s of CPU time",
            ENOUGH_S,
        )
        wait_until(lambda: capture.profile.samples >= samples, f"{samples} stacks", ENOUGH_S)
        capture.stop()
        capture.finish_symbols(SYMBOLS_S)
        return capture


def complete_share(capture: Capture) -> float:
    """The part of the CPU weight whose stack is complete."""
    return share_of(capture, *(verdict for verdict in Verdict if verdict.is_complete))


def share_of(capture: Capture, *verdicts: Verdict) -> float:
    """The part of the CPU weight that has one of these verdicts, but for ``TAIL_NS`` of each thread
    without a stack; 0 when there is no CPU weight."""
    weights = capture.status().verdict_cpu_ns
    tail_ns = min(
        weights.get(Verdict.NO_STACK.name, 0), TAIL_NS * len(capture.profile.thread_infos())
    )
    total_ns = sum(weights.values()) - tail_ns
    found_ns = sum(weights.get(verdict.name, 0) for verdict in verdicts)
    return found_ns / total_ns if total_ns else 0.0


def stacks(capture: Capture, clock: Clock = Clock.CPU, tid: int | None = None) -> Stacks:
    """The recording's stacks by a clock, of all threads or of the one with kernel id ``tid``."""
    if tid is None:
        return of_tree(views_of(capture.recording).tree(Selection(clock, None)))
    chosen = frozenset(info.thread_id for info in capture.profile.thread_infos() if info.tid == tid)
    assert chosen, f"thread {tid} was never seen: {capture.profile.thread_infos()}"
    return of_tree(views_of(capture.recording).tree(Selection(clock, chosen)))


def doubts(capture: Capture) -> str:
    """What stood in the way of complete stacks, for messages of failed tests."""
    status = capture.status()
    return (
        f"verdicts {status.verdict_cpu_ns}, modules at fault {status.verdict_modules}, "
        f"counters {status.counters}, notes {status.notes}"
    )
