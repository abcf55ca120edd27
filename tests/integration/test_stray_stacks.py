"""A thread on small stacks of its own making takes our signal on an alternate stack with room, or
not at all: memory below those stacks belongs to somebody else (``tests/targets/strays.c``). A
thread on its own stack always takes it (``tests/targets/aligned.c``)."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

import kernel
import receipt
from flametap.model import Clock
from recording import capturing, complete_share, doubts, record, stacks
from running import Start, Target, wait_until
from targetbuild import Builder

pytestmark = pytest.mark.needs("attach", "gcc")


ENOUGH = 100  # signals
ENOUGH_CPU_NS = 500_000_000
PATIENCE_S = 120.0


@pytest.mark.parametrize("kind", ["roomy", "unused", "stale"])
def test_alternate_stack_is_used_where_there_is_need(start: Start, kind: str) -> None:
    """Not where the program takes signals on its own stacks: the alternate one may be stale."""
    target = start("strays", kind)
    before = receipt.take_at_rest(target.pid)
    with capturing(target.pid, rate_hz=1000) as capture:
        wait_until(
            lambda: capture.status().counters.get("signals_handled", 0) > ENOUGH,
            "signals",
            PATIENCE_S,
        )
        capture.stop()
        seen = capture.status().counters
    assert receipt.harm_after_settling(target.pid, before) == []
    assert target.finish() == ["wrong 0 spoilt 0"]
    assert seen["stray_stack"] == 0


@pytest.mark.parametrize("kind", ["none", "small"])
def test_without_room_it_gets_no_signal(start: Start, kind: str) -> None:
    target = start("strays", kind)
    before = receipt.take_at_rest(target.pid)
    with capturing(target.pid, rate_hz=1000) as capture:

        def is_told() -> bool:
            counters = capture.status().counters
            names = ("stray_stack", "unattributed_cpu_ns")
            return all(counters.get(name, 0) > 0 for name in names)

        wait_until(is_told, "a thread without room", PATIENCE_S)
        capture.stop()
        seen = capture.status().counters
    assert receipt.harm_after_settling(target.pid, before) == []
    assert target.finish() == ["wrong 0 spoilt 0"]
    assert seen["signals_sent"] == 0


def test_handler_that_leaves_little_of_its_stack_is_passed_over(start: Start) -> None:
    target = start("altstack", "tight", "busy")
    with capturing(target.pid, rate_hz=1000) as capture:

        def is_met() -> bool:
            counters = capture.status().counters
            return min(counters.get("small_stack", 0), counters.get("signals_handled", 0)) > ENOUGH

        wait_until(is_met, "samples in the handlers and outside of them", PATIENCE_S)
        capture.stop()
    for line in target.finish():
        found = re.fullmatch(r"sent (\d+) handled (\d+) eintr 0 spoilt 0", line)
        assert found, line
        assert found[1] == found[2] != "0", line


def test_stack_aligned_as_an_arena_is_a_stack(start: Start) -> None:
    """Asleep when it is first seen, before any handler tells where its stack lies."""
    target = start("aligned")
    before = receipt.take_at_rest(target.pid)
    with capturing(target.pid, rate_hz=1000) as capture:
        wait_until(
            lambda: capture.status().counters.get("parked_reads", 0) >= 2, "looks", PATIENCE_S
        )
        target.say("begin", PATIENCE_S)
        wait_until(
            lambda: capture.profile.total_ns(Clock.CPU) > ENOUGH_CPU_NS, "CPU time", PATIENCE_S
        )
        capture.stop()
        seen = capture.status().counters
    assert receipt.harm_after_settling(target.pid, before) == []
    assert target.finish() == ["begun"]
    assert seen["stray_stack"] == seen["small_stack"] == 0
    assert complete_share(capture) >= 0.99


def test_program_with_a_profiler_of_its_own_is_sampled(start: Start) -> None:
    """Its handler is made to run on alternate stacks, and is seen running again and again."""
    target = start("busy", "profiled")
    before = receipt.take_at_rest(target.pid)
    with capturing(target.pid, rate_hz=1000) as capture:

        def used_ns() -> list[int]:
            return [
                each.cpu_ns
                for each in capture.profile.thread_infos()
                if each.name.startswith("busy ")
            ]

        wait_until(lambda: min(used_ns(), default=0) > ENOUGH_CPU_NS, "CPU time", PATIENCE_S)
        capture.stop()
    for thread in capture.profile.thread_infos():
        if thread.name.startswith("busy "):
            # It begins with the time until the host has met the thread while it ran.
            assert stacks(capture, tid=thread.tid).share("spin") > 0.7, doubts(capture)
    assert receipt.harm_after_settling(target.pid, before) == []
    assert re.fullmatch(r"handled=\d{2,}", target.finish()[0])


@pytest.mark.needs("unshare")
def test_in_a_pid_namespace_it_gets_no_signal_either(
    adopt: Callable[[Target], Target], builder: Builder, seconds: float
) -> None:
    """The target knows its threads by other numbers than we do."""
    program = builder.program("strays")
    launcher = adopt(Target(["unshare", "--pid", "--fork", "--mount-proc", str(program), "none"]))
    (pid,) = kernel.children(launcher.pid)
    seen = record(pid, seconds, rate_hz=1000).status().counters
    assert launcher.finish() == ["wrong 0 spoilt 0"]
    assert seen["signals_sent"] == 0
