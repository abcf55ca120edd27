"""Threads that wait: they are never woken, their stacks are complete, and each says what it waits
in."""

from __future__ import annotations

import re

import pytest

import kernel
from flametap.model import Clock
from recording import capturing, doubts, record, stacks
from running import Start, wait_until

pytestmark = pytest.mark.needs("attach", "gcc")

# Our name of the wait → the system call that glibc makes of it on x86-64.
SYSCALLS = {
    "epoll_wait": "[epoll_wait]",
    "poll": "[poll]",
    "select": "[pselect6]",
    "nanosleep": "[clock_nanosleep]",
    "futex": "[futex]",
    "sem_timedwait": "[futex]",
    "accept": "[accept]",
    "read": "[read]",
    "epoll_pwait": "[epoll_pwait]",
    "pselect": "[pselect6]",
    "recv": "[recvfrom]",
}


# A program that gave up its user (nginx, memcached, mariadbd do) may not open its own procfs files.
RIGHTS = [
    pytest.param((), id="own user"),
    pytest.param(("dropped",), id="dropped user", marks=pytest.mark.needs("root")),
]


@pytest.mark.parametrize("rights", RIGHTS)
def test_parked_threads_are_never_woken_and_always_seen(
    start: Start, seconds: float, rights: tuple[str, ...]
) -> None:
    target = start("parked", "long", *rights)
    assert set(target.facts) == set(SYSCALLS)
    before = {name: kernel.context_switches(target.pid, t) for name, t in target.facts.items()}
    capture = record(target.pid, max(seconds, 2.0), rate_hz=1000)
    after = {name: kernel.context_switches(target.pid, t) for name, t in target.facts.items()}

    # The kernel counts each time a thread leaves the CPU: a thread that was woken, by a signal or
    # by anything else, has left it once more.
    assert after == before
    # The target's own count of waits that ended, and of those that ended with EINTR.
    assert target.finish() == [f"{name} returns=0 eintr=0" for name in target.facts]

    for name, tid in target.facts.items():
        wall = stacks(capture, Clock.WALL, tid)
        assert len(wall.weights) == 1, f"{name}:\n{wall.heaviest()}"
        (stack,) = wall.weights
        assert stack[-1] == SYSCALLS[name], stack
        assert stack[stack.index("park") + 1] == f"park_in_{name}", stack
        assert "start_thread" in stack[: stack.index("park")], stack
        assert "[truncated]" not in stack, stack
        status = capture.status()
        # Where the whole machine stood still, that is in no interval.
        wall_ns = wall.total + status.counters["gap_ns"]
        assert wall_ns == pytest.approx(status.duration_ns, rel=0.02), doubts(capture)
        assert stacks(capture, Clock.CPU, tid).total == 0
        assert stacks(capture, Clock.OFF_CPU, tid).total == wall.total
    counters = capture.status().counters
    assert counters["eintr_repaired"] == counters["eintr_unrepairable"] == 0, counters


def test_thread_list_says_what_each_waits_in(start: Start) -> None:
    target = start("parked", "long")
    with capturing(target.pid, rate_hz=100) as capture:
        calls = {tid: SYSCALLS[name].strip("[]") for name, tid in target.facts.items()}

        def are_told() -> bool:
            waits = {info.tid: info.waits_in for info in capture.profile.thread_infos()}
            return all(waits.get(tid) == call for tid, call in calls.items())

        wait_until(are_told, "what each thread waits in")
    target.finish()


@pytest.mark.parametrize("rights", RIGHTS)
def test_waits_that_time_out_all_the_time_see_no_eintr(
    start: Start, seconds: float, rights: tuple[str, ...]
) -> None:
    target = start("parked", "short", *rights)
    capture = record(target.pid, seconds, rate_hz=1000)
    counters = capture.status().counters
    assert counters["signals_sent"] < counters["parked_reads"], counters
    for line in target.finish():
        assert re.fullmatch(r"\w+ returns=\d\d+ eintr=0", line), (line, counters)
    assert counters["eintr_unrepairable"] == 0, counters
