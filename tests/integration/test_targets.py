"""The instruments before the measurement: targets keep their known answers, and the receipt notices
each harm.

Nothing here attaches to anything.
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

import receipt
from kernel import CpuLog, context_switches, status
from running import Start, Target, wait_until
from targetbuild import SOURCES

BUSY_TICKS = 10
pytestmark = pytest.mark.needs("gcc")

HARMS = {
    "fd": r"fd \d+ was closed, is /dev/null",
    "thread": r"new thread \d+ \(harm\)",
    "handler": r"SigCgt was \w+, is \w+",
    "ignored": r"SigIgn was \w+, is \w+",
    "mask": r"SigBlk was \w+, is \w+",
    "text": r"code of harm at 0x\w+ is not what it was",
    "writable-text": r"code of .*/harm at 0x\w+ is gone or has other rights",
    "memfd": r"left mapped: /memfd:left-behind",
    "anonymous-code": r"86016 bytes of anonymous code left behind by 1 attach",
}
PATIENCE_S = 60.0
LOGGED_NS = 200_000_000  # the log is that far behind on a busy machine


@pytest.mark.parametrize("name", HARMS)
def test_receipt_names_the_harm(start: Start, name: str) -> None:
    target = start("harm")
    before = receipt.take(target.pid)
    target.say(name)
    found = receipt.harm(before, receipt.take(target.pid))
    assert any(re.search(HARMS[name], line) for line in found), found
    target.finish()


def test_receipt_of_a_quiet_and_of_a_busy_process_stays_the_same(start: Start) -> None:
    for target in (start("sleeper"), start("bursts"), start("parked", "short")):
        before = receipt.take(target.pid)
        time.sleep(0.2)
        assert receipt.harm_after_settling(target.pid, before, attaches=0) == []
        target.finish()


def test_parked_threads_stay_asleep_when_nobody_profiles_them(start: Start) -> None:
    target = start("parked", "long")
    before = {name: context_switches(target.pid, tid) for name, tid in target.facts.items()}
    time.sleep(0.2)
    after = {name: context_switches(target.pid, tid) for name, tid in target.facts.items()}
    assert after == before
    assert target.finish() == [f"{name} returns=0 eintr=0" for name in target.facts]


def _sleeps(pid: int, tid: int) -> int:
    """How often a thread has left the CPU to wait for something."""
    return int(status(pid, tid)["voluntary_ctxt_switches"])


def test_short_waits_end_again_and_again_without_eintr(start: Start) -> None:
    target = start("parked", "short")
    tids = target.facts.values()
    before = {tid: _sleeps(target.pid, tid) for tid in tids}
    wait_until(
        lambda: all(_sleeps(target.pid, tid) >= before[tid] + 20 for tid in tids),
        "20 waits of each thread",
        20,
    )
    for line in target.finish():
        found = re.fullmatch(r"\w+ returns=(\d+) eintr=0", line)
        assert found, line
        assert int(found[1]) > 10, line


def test_kernel_cpu_time_tells_the_shapes_of_bursts(start: Start) -> None:
    target = start("bursts")
    tids = list(target.facts.values())
    with CpuLog(target.pid, tids) as log:
        begin = time.monotonic_ns()

        def is_told() -> bool:
            """Half a second on two cores that have nothing else to do, longer where they have."""
            end = time.monotonic_ns() - LOGGED_NS
            if end < begin:
                return False
            try:
                used = {name: log.used_ns(tid, begin, end) for name, tid in target.facts.items()}
            except AssertionError:  # the log does not reach so far yet
                return False
            order = pairwise(("short-rare", "short-often", "steady"))
            return min(least for least, _ in used.values()) > 1_000_000 and all(
                used[smaller][1] < used[larger][0] for smaller, larger in order
            )

        wait_until(is_told, "bursts of different lengths", PATIENCE_S)
    target.finish()


def test_ticker_counts_without_a_gap(start: Start) -> None:
    target = start("ticker")
    wait_until(lambda: len(target.lines) > 30, "30 ticks")
    *ticks, last = target.finish()
    assert last == "done"
    assert [int(line.split()[1]) for line in ticks] == list(range(len(ticks)))


def cpu_ticks(pid: int) -> int:
    """CPU time of a process, with threads that have ended, in hundredths of a second."""
    fields = Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


@pytest.mark.parametrize("name", ["ratio", "deep", "churn", "signals"])
def test_busy_target_is_busy_and_ends_in_order(start: Start, name: str) -> None:
    target = start(name)
    wait_until(lambda: cpu_ticks(target.pid) >= BUSY_TICKS, "CPU time")
    report = target.finish()
    if name == "signals":
        found = re.fullmatch(r"sent (\d+) urg (\d+) rt (\d+) foreign 0 prof runs", report[-1])
        assert found, report
        assert found[1] == found[2] == found[3]
    else:
        assert len(report) == 1, report
        assert not report[0].startswith("failed"), report


@pytest.mark.needs("g++")
def test_mixers_run_in_four_named_threads(start: Start) -> None:
    target = start("inlines")
    expected = {"inlines", "mixer-0", "mixer-1", "mixer-2", "mixer-3"}
    # Each names itself when it gets to run.
    wait_until(lambda: set(receipt.take(target.pid).threads.values()) == expected, f"{expected}")
    assert target.finish() == ["mixed 1"]


def test_python_target_ends_by_itself(adopt: Callable[[Target], Target]) -> None:
    assert adopt(Target([sys.executable, SOURCES / "busy.py"])).finish()[0].startswith("done")
