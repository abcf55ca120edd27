"""What sampling costs stays within the budget, and whoever looks is told so."""

from __future__ import annotations

import os
from collections import defaultdict

import pytest

import cli
import receipt
from flametap.capture.live import Capture
from flametap.errors import UsageError
from flametap.model import Clock
from recording import capturing, doubts, stacks
from running import Start, wait_until

pytestmark = pytest.mark.needs("attach", "gcc")

ASKED_HZ = 5000.0
BUDGET_PPM = 5_000
TIMEOUT_S = 60.0
# What it is with the target alone. The rate may be down to 40 Hz: of 200 samples chance leaves a
# share of 0.75 ± 0.03.
ENOUGH_CPU_S = 5.0


def _cost_ns(counters: dict[str, int]) -> int:
    return counters["handler_ns_total"] + counters["sampler_cpu_ns"]


@pytest.mark.nightly  # long, until it has settled; each of its steps: agent_c/test_upkeep.py
def test_rate_is_lowered_until_the_cost_fits(start: Start) -> None:
    target = start("ratio")
    before = receipt.take(target.pid)
    with capturing(target.pid, rate_hz=ASKED_HZ, budget_ppm=BUDGET_PPM) as capture:

        def has_settled() -> bool:
            counters = defaultdict(int, capture.status().counters)  # empty at first
            return (
                counters["budget_lowered"] > 0 and counters["rate_mhz_now"] < 0.5 * ASKED_HZ * 1e3
            )

        wait_until(has_settled, "a lower rate", TIMEOUT_S)
        capture.wait(1.0)
        earlier = capture.status()
        wait_until(
            lambda: capture.status().duration_ns > earlier.duration_ns + 3e9, "3 s", TIMEOUT_S
        )
        later = capture.status()
        cost_ns = _cost_ns(later.counters) - _cost_ns(earlier.counters)
        share = cost_ns / (later.duration_ns - earlier.duration_ns)
        assert share < 3 * BUDGET_PPM / 1e6, later.counters
        assert any("lowered from 5,000 to" in note for note in later.notes), later.notes
        wait_until(
            lambda: capture.profile.total_ns(Clock.CPU) >= ENOUGH_CPU_S * 1e9,
            f"{ENOUGH_CPU_S:g} s of CPU time",
            2 * TIMEOUT_S,
        )
        capture.stop()
        capture.finish_symbols(TIMEOUT_S)
        # Weights are times: what the rate was says nothing about them.
        heavy = stacks(capture).share("heavy")
        assert 0.65 < heavy < 0.85
    assert receipt.harm_after_settling(target.pid, before) == []
    target.finish()


def test_without_a_budget_the_rate_is_what_was_asked(start: Start, seconds: float) -> None:
    target = start("ratio")
    with capturing(target.pid, rate_hz=ASKED_HZ, budget_ppm=0) as capture:
        assert not capture.wait(seconds)
        status = capture.status()
        assert status.counters["rate_mhz_now"] == ASKED_HZ * 1000
        assert status.counters["budget_lowered"] == 0
        assert not any("lowered" in note for note in status.notes), status.notes
    target.finish()


def test_the_command_line_tells_that_the_rate_was_lowered(start: Start) -> None:
    target = start("ratio")
    arguments = ("record", "-p", target.pid, "-d", 4, "-r", "10k", "--budget", "0.3%")
    result = cli.run(*arguments, "-o", os.devnull, "-f", "folded")
    result.assert_saved()
    assert "lowered from 10,000 to" in result.stderr
    assert "within 0.3 % of a core" in result.stderr
    target.finish()


@pytest.mark.parametrize("budget", ["x", "-1", "0.001", ""])
def test_what_is_no_budget_is_refused(budget: str) -> None:
    result = cli.run("record", "-p", os.getpid(), "--budget", budget)
    result.assert_refused(2, "budget")


def test_target_that_sets_its_own_handler_keeps_it(start: Start) -> None:
    target = start("replace")
    with capturing(target.pid) as capture:
        wait_until(
            lambda: capture.status().counters.get("signals_handled", 0), "signals", TIMEOUT_S
        )
        target.say("replace")
        wait_until(
            lambda: capture.status().counters["handler_replaced"] > 0, "the watch", TIMEOUT_S
        )
        target.say("raise")
        # Of ours none arrives there, but for those on their way when the handler changed: at the
        # most one to each of its two threads.
        ours = int(target.lines[-1].removeprefix("urg ")) - 1
        assert 0 <= ours <= 2
        capture.stop()
        assert any("handler of its own" in note for note in capture.status().notes)
    # What it kept is our gate: it must still be there to be called, and to be put back.
    for command in ("call", "raise", "restore", "raise", "call"):
        target.say(command)
    assert target.lines[-1] == f"urg {2 + ours}"
    target.finish()


def test_rate_and_budget_are_changed_while_it_records(start: Start) -> None:
    target = start("ratio")

    def samples_per_s(capture: Capture) -> float:
        """Of CPU time, from now on."""
        samples, cpu_ns = capture.profile.cpu_samples, capture.profile.total_ns(Clock.CPU)
        wait_until(
            lambda: capture.profile.total_ns(Clock.CPU) > cpu_ns + 1e9, "CPU time", TIMEOUT_S
        )
        taken = capture.profile.cpu_samples - samples
        return taken / ((capture.profile.total_ns(Clock.CPU) - cpu_ns) / 1e9)

    def wait_for_rate(capture: Capture, rate_hz: float) -> None:
        wait_until(
            lambda: capture.status().counters.get("cpu_rate_mhz_now") == rate_hz * 1000,
            f"{rate_hz:g} Hz",
            TIMEOUT_S,
        )

    with capturing(target.pid, rate_hz=20.0, budget_ppm=0) as capture:
        slow = samples_per_s(capture)
        capture.set_sampling(400.0, 0)
        wait_for_rate(capture, 400.0)
        fast = samples_per_s(capture)
        told = f"{slow:.0f} Hz, then {fast:.0f} Hz; {doubts(capture)}"
        assert fast > 4 * slow, told
        assert capture.status().asked_rate_hz == 400.0
        capture.set_sampling(20.0, 2.5)
        wait_for_rate(capture, 20.0)
        assert samples_per_s(capture) < 0.5 * fast, told
        assert capture.status().budget_ppm == 25_000
        for rate_hz, percent in ((0.5, 1.0), (20_000.0, 1.0), (100.0, -1.0), (100.0, float("inf"))):
            with pytest.raises(UsageError):
                capture.set_sampling(rate_hz, percent)
        capture.stop()
        with pytest.raises(UsageError, match="nothing is being recorded"):
            capture.set_sampling(100.0, 1.0)
        capture.finish_symbols(TIMEOUT_S)
        # Weights are times: the rates say nothing about them.
        cpu_ns = capture.profile.total_ns(Clock.CPU)
        assert sum(stacks(capture).weights.values()) == cpu_ns
    target.finish()
