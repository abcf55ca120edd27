"""Threads in step with the tick are sampled by a precise clock, which leaves no trace."""

from __future__ import annotations

import mmap
import time
from collections.abc import Callable

import pytest

import receipt
from flametap.inject.link import host_socket
from flametap.inject.link.session import Session
from flametap.inject.ways import injector_for
from flametap.model import Clock
from flametap.wire.ring import Ring
from recording import capturing, doubts
from running import Start, Target, wait_until
from targetbuild import Builder

pytestmark = pytest.mark.needs("attach", "gcc", "perf-clock")

RATE_HZ = 500.0
LENT_S = 20.0  # a third of a second where the machine is idle
ENOUGH_S = 30.0


def test_periodic_thread_is_sampled_as_often_as_was_asked_and_nothing_stays(start: Start) -> None:
    target = start("truth", "tick")
    before = receipt.take(target.pid)
    with capturing(target.pid, rate_hz=RATE_HZ) as capture:
        wait_until(lambda: capture.status().counters.get("clocks_lent"), "a clock", LENT_S)
        wait_until(lambda: capture.profile.total_ns(Clock.CPU) > 0.5e9, "CPU time", ENOUGH_S)
        capture.stop()
        counters = capture.status().counters
        samples = int(capture.profile.leaf_samples(Clock.CPU).total)
        asked_for = RATE_HZ * capture.profile.total_ns(Clock.CPU) / 1e9
    told = f"{samples} of {asked_for:.0f}; {doubts(capture)}"
    # A tick would meet a thread that runs for 1 ms of 10 a few times a second. A host that takes
    # the CPU away makes events fewer.
    assert 0.5 * asked_for < samples < 1.5 * asked_for, told
    assert counters["eintr_unrepairable"] == 0, told
    assert receipt.harm_after_settling(target.pid, before) == []
    target.finish()


@pytest.mark.nightly
def test_clock_goes_on_after_a_pause(start: Start) -> None:
    target = start("truth", "tick")
    with capturing(target.pid, rate_hz=RATE_HZ) as capture:
        wait_until(lambda: capture.status().counters.get("clocks_lent"), "a clock", LENT_S)
        capture.set_paused(True)
        before_ns = capture.profile.total_ns(Clock.CPU)
        samples = capture.profile.leaf_samples(Clock.CPU).total
        time.sleep(0.5)
        capture.set_paused(False)
        wait_until(
            lambda: capture.profile.total_ns(Clock.CPU) > before_ns + 0.2e9, "CPU time", ENOUGH_S
        )
        assert capture.status().counters["clocks_lent"] == 1
        more = capture.profile.leaf_samples(Clock.CPU).total - samples
        assert more > 0.4 * 0.2 * RATE_HZ, doubts(capture)
    target.finish()


def test_programs_that_block_our_signal_in_handlers_have_none(start: Start) -> None:
    """There nobody could tell whose EINTR one is (``agent/syscalls/eintr_restart.c``)."""
    target = start("waits", "signals")
    with capturing(target.pid, rate_hz=RATE_HZ) as capture:
        capture.wait(2.0)
        capture.stop()
        assert capture.status().counters["clocks_lent"] == 0
    target.finish()


@pytest.mark.parametrize(
    "within", [[], pytest.param(["unshare", "--net"], marks=pytest.mark.needs("unshare"))]
)
def test_agent_connects_where_the_kernel_hands_no_socket_out(
    within: list[str],
    adopt: Callable[[Target], Target],
    builder: Builder,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As before Linux 6.9; in a network of the program's own, too."""
    monkeypatch.setattr(host_socket, "take", lambda *_: None)
    target = adopt(Target([*within, builder.program("truth"), "tick"]))
    before = receipt.take(target.pid)
    session = Session(target.pid, injector_for(target.pid, "direct")[0])
    try:
        with mmap.mmap(session.attach(RATE_HZ), 0) as memory:
            ring = Ring(memory)
            session.start()

            def is_lent() -> int:
                ring.beat(time.monotonic_ns())
                ring.read()
                return ring.counters()["clocks_lent"]

            wait_until(is_lent, "a clock", LENT_S)
            ring.close()
    finally:
        session.close()
    assert receipt.harm_after_settling(target.pid, before) == []
    target.finish()
