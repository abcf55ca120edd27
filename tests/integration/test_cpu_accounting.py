"""CPU weight per thread is the kernel's own figure, also for work between the ticks."""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest

from flametap.capture.live import Capture
from flametap.model import Clock
from kernel import CpuLog, cpu_with_ended_ns
from nightly import nightly
from recording import capturing, doubts, record, stacks
from running import Start, Target, wait_until

pytestmark = pytest.mark.needs("attach", "gcc")

Adopt = Callable[[Target], Target]

# A thread that hardly runs is a matter of single kernel ticks (4 ms at 250 Hz), at both ends.
TICKS_NS = 8_000_000


def _record(
    target: Target, seconds: float, rate_hz: float
) -> tuple[Capture, dict[str, tuple[int, int]]]:
    """Record; also says what the kernel has counted meanwhile: thread's name → the least and the
    most CPU ns."""
    with (
        CpuLog(target.pid, list(target.facts.values())) as log,
        capturing(target.pid, rate_hz=rate_hz) as capture,
    ):
        capture.wait(seconds)
        capture.stop()
    profile = capture.profile
    used_ns = {
        name: log.used_ns(tid, profile.start_ns, profile.now_ns)
        for name, tid in target.facts.items()
    }
    return capture, used_ns


def _agrees(cpu_ns: int, used_ns: tuple[int, int], slack_ns: int = TICKS_NS) -> bool:
    """True if a weight is within what the kernel has counted, give or take 2 %, or a tick or so."""
    least_ns, most_ns = used_ns
    low_ns = least_ns - max(0.02 * least_ns, slack_ns)
    return low_ns <= cpu_ns <= most_ns + max(0.02 * most_ns, slack_ns)


@pytest.mark.parametrize("rate_hz", [100, *nightly(1000)])
def test_cpu_weight_is_what_the_kernel_counted(
    start: Start, seconds: float, rate_hz: float
) -> None:
    target = start("bursts")
    capture, used_ns = _record(target, max(seconds, 2.0), rate_hz)
    weights = {info.name: info.cpu_ns for info in capture.profile.thread_infos()}
    for name, expected_ns in used_ns.items():
        assert _agrees(weights[name], expected_ns), f"{name}: {weights} {used_ns} {doubts(capture)}"
    least_ns, most_ns = (sum(each) for each in zip(*used_ns.values(), strict=True))
    assert _agrees(sum(weights[name] for name in used_ns), (least_ns, most_ns), slack_ns=0)
    target.finish()


@pytest.mark.nightly
def test_work_in_bursts_is_put_where_it_was_done(start: Start, seconds: float) -> None:
    target = start("bursts")
    capture, _ = _record(target, max(seconds, 2.0), 1000)
    for name in ("short-often", "long-rare", "steady"):
        seen = stacks(capture, Clock.CPU, target.facts[name])
        assert seen.share("live") >= 0.95, f"{name}:\n{seen.heaviest()}"
    steady = stacks(capture, Clock.CPU, target.facts["steady"])
    assert steady.share("burst") >= 0.99, steady.heaviest()
    target.finish()


def test_cpu_time_is_put_where_it_was_used_and_not_where_turns_end(
    start: Start, seconds: float
) -> None:
    # Threads without a CPU show where their last turn ended: with those stacks it is 0.83 to 0.93,
    # without them 0.984 or more.
    target = start("turns")
    capture = record(target.pid, max(seconds, 3.0), rate_hz=1000)
    seen = stacks(capture)
    assert seen.share("work") >= 0.96, seen.heaviest()
    target.finish()


def test_thread_that_blocks_all_signals_loses_no_cpu(start: Start) -> None:
    target = start("bursts")
    capture, used_ns = _record(target, 1.0, 100)
    seen = stacks(capture, Clock.CPU, target.facts["masked"])
    assert _agrees(seen.total, used_ns["masked"]), (seen.total, used_ns)
    assert capture.status().counters["signal_blocked"] > 0
    target.finish()


# CPython sets SA_ONSTACK on each handler, and almost no thread of it has an alternate stack.
WITH_HANDLER = """
import signal
signal.signal(signal.SIGINT, lambda number, frame: None)
print("ready", flush=True)
while True: sum(range(10000))
"""


def test_handler_for_a_signal_that_hardly_ever_comes_keeps_none_of_ours_off(
    adopt: Callable[[Target], Target],
) -> None:
    target = adopt(Target([sys.executable, "-c", WITH_HANDLER]))
    with capturing(target.pid, rate_hz=100) as capture:
        wait_until(lambda: capture.status().counters.get("signals_handled", 0) > 0, "a signal")
        assert capture.status().counters["small_stack"] == 0


# One thread after another, each gone before it can be met twice.
SHORT_LIVED = """
import threading, time
def burn():
    end = time.thread_time() + 0.003
    while time.thread_time() < end: pass
print("ready", flush=True)
while True:
    thread = threading.Thread(target=burn)
    thread.start()
    thread.join()
"""


def test_threads_too_short_lived_to_be_met_are_not_lost(
    adopt: Callable[[Target], Target],
) -> None:
    target = adopt(Target([sys.executable, "-c", SHORT_LIVED]))
    with capturing(target.pid, rate_hz=100) as capture:
        before_ns = cpu_with_ended_ns(target.pid)
        # So much that what is used before and behind the two looks weighs little, however long we
        # wait for our turn.
        wait_until(lambda: cpu_with_ended_ns(target.pid) > before_ns + 1e9, "1 s of CPU time")
        least_ns = cpu_with_ended_ns(target.pid) - before_ns
        capture.stop()
        most_ns = cpu_with_ended_ns(target.pid) - before_ns
    # The process's clock counts our own threads, too.
    counted_ns = capture.profile.total_ns(Clock.CPU) + capture.status().counters["sampler_cpu_ns"]
    assert 0.9 * least_ns <= counted_ns <= 1.1 * most_ns, (least_ns, most_ns, doubts(capture))


BLOCKS = """
import signal
print("ready", flush=True)
while True:
    for how in signal.SIG_BLOCK, signal.SIG_UNBLOCK:
        signal.pthread_sigmask(how, (signal.SIGURG, signal.SIGWINCH))
        for _ in range(200_000):
            pass
"""


def test_time_with_our_signal_blocked_is_named(adopt: Adopt, seconds: float) -> None:
    """For some milliseconds at a time, in which no sample can be taken."""
    target = adopt(Target([sys.executable, "-c", BLOCKS]))
    capture = record(target.pid, seconds, cpu_s=2.0)
    assert any("blocked the sampling signal" in note for note in capture.status().notes)
