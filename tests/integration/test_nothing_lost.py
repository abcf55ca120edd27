"""What was sampled before an abrupt end is in the recording."""

from __future__ import annotations

import re
import signal
from pathlib import Path

import pytest

import cli
from flametap.model import Clock
from nightly import nightly
from recording import capturing
from running import Start, wait_until
from stacks import read_folded
from targetbuild import Builder

pytestmark = pytest.mark.needs("attach", "gcc")

ENDS = {
    "exit": 3,
    "exec": 0,
    "abort": 128 + signal.SIGABRT,
    "segv": 128 + signal.SIGSEGV,
    "kill": 128 + signal.SIGKILL,
}


def _used_ns(lines: list[str]) -> int:
    (found,) = (re.fullmatch(r"used (\d+)", line) for line in lines if line.startswith("used"))
    assert found
    return int(found[1])


@pytest.mark.parametrize("end", ["exit", "kill", *nightly("exec", "abort", "segv")])
def test_what_was_sampled_before_the_end_is_there(start: Start, end: str) -> None:
    target = start("ending", "1000", end)
    with capturing(target.pid, rate_hz=100) as capture:
        target.say("go", 30)
        used_ns = _used_ns(target.lines)
        assert capture.wait(30)
        assert capture.status().state == "ended"
        # Behind the last look are two periods of 10 ms, or a pause that the hypervisor makes.
        assert capture.profile.total_ns(Clock.CPU) > 0.75 * used_ns


@pytest.mark.parametrize("blocks_from_percent", ["25", *nightly("0")])
def test_cpu_time_that_meets_no_stack_is_told_all_along(
    start: Start, blocks_from_percent: str
) -> None:
    target = start("ending", "1000", "kill", blocks_from_percent)
    with capturing(target.pid, rate_hz=100) as capture:
        target.say("go", 30)
        used_ns = _used_ns(target.lines)
        assert capture.wait(30)
        assert capture.profile.total_ns(Clock.CPU) > 0.75 * used_ns


@pytest.mark.parametrize("end", ["exit", "segv", *nightly("exec", "abort", "kill")])
def test_command_that_lives_for_50_ms(builder: Builder, tmp_path: Path, end: str) -> None:
    out = tmp_path / "out.folded"
    # At 100 Hz these are five looks, and chance has half of the time behind the last one.
    rate = ("-r", 1000, "--budget", 0)
    result = cli.run("record", *rate, "-o", out, "--", builder.program("ending"), 50, end)
    assert result.exit_code == ENDS[end], result.stderr
    assert "Traceback" not in result.stderr
    recorded = read_folded(out)
    used_us = _used_ns(result.stdout.splitlines()) / 1000
    assert recorded.total > 0.5 * used_us, result.stderr
    # Until it is released it spins at its entry, which takes longer where the machine is busy.
    released = recorded.where(lambda stack: stack != ("_start",))
    assert released.share("burn") > 0.8, f"{result.stderr}\n{recorded.heaviest()}"


def test_stopped_time_is_in_no_interval(start: Start) -> None:
    target = start("ratio")
    with capturing(target.pid, rate_hz=100) as capture:
        wait_until(lambda: capture.status().samples > 0, "samples")
        target.signal(signal.SIGSTOP)
        assert not capture.wait(1.5)
        target.signal(signal.SIGCONT)
        seen = capture.status().samples
        wait_until(lambda: capture.status().samples > seen, "samples again")
        capture.stop()
        gap_ns = capture.status().counters["gap_ns"]
        assert gap_ns > 1_000_000_000
        (info,) = (info for info in capture.profile.thread_infos() if info.tid == target.pid)
        assert info.wall_ns + gap_ns == pytest.approx(capture.profile.duration_ns, rel=0.1)
    target.finish()
