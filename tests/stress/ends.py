"""Targets that end, in every way there is, at any moment of a recording."""

from __future__ import annotations

import os
import signal
import time

from flametap.capture.exit_status import ExitStatus
from harness import Run, scenario
from load import READY_S
from running import Target, wait_until

# How tests/targets/ends.c ends, and the exit code that its parent sees.
WAYS = {
    "return": 3,
    "exit": 4,
    "quick": 5,
    "abort": -signal.SIGABRT,
    "fault": -signal.SIGSEGV,
    "illegal": -signal.SIGILL,
    "kill": -signal.SIGKILL,
}
RUNS_ATEXIT = ("return", "exit", "thread")
# What is in the recording has to reach up to so short before the end; a busy machine needs it.
TAIL_S = 0.5


def _wait_for_end(target: Target) -> None:
    wait_until(lambda: not target.alive, "the end", READY_S)


def _check(run: Run, target: Target, how: str, code: int) -> None:
    run.expect(target.exit_code == code, f"{how}: exit code {target.exit_code} instead of {code}")
    run.expect(not target.errors, f"{how}: it says {target.errors}")
    target.close()  # and all its output is here
    lines = target.lines[1:]
    if how in RUNS_ATEXIT:
        run.expect("last" in lines, f"{how}: what runs at exit did not run")
        # After exit(4) in a thread, main writes on until the process is gone.
        lines = [line for line in lines if line != "last"]
    run.expect(lines == [str(n) for n in range(len(lines))], f"{how}: output is missing: {lines}")


@scenario("gcc")
def ends_while_recorded(run: Run) -> None:
    """Eight ways to end in the middle of a recording: all that was sampled is in it."""
    for how in WAYS:
        target = run.target("ends", how, "0")
        recording = run.begin(target.pid, 60.0)
        assert recording.wait_begun(), recording.outcome().error
        time.sleep(run.seconds / 4)  # what is recorded
        target.close_input()
        _wait_for_end(target)
        ended_s = time.monotonic()
        outcome = run.collect(recording)
        _check(run, target, how, WAYS[how])
        code = WAYS[how]
        ending = ExitStatus(signal_number=-code) if code < 0 else ExitStatus(code=code)
        run.expect(outcome.reason == f"the target {ending}", f"{how}: ended: {outcome.reason}")
        tail_s = ended_s - outcome.until_s
        run.expect(tail_s < TAIL_S, f"{how}: the last {tail_s:.2f} s are not in the recording")
        run.expect(outcome.cpu_s > 0, f"{how}: CPU time is missing: {outcome}")
        run.fact("longest_tail_s", tail_s)


@scenario("gcc")
def ends_at_random_moments(run: Run) -> None:
    """End at any moment of attach, recording and stop."""
    for _ in range(max(4, round(run.seconds))):
        how = run.random.choice(list(WAYS))
        target = run.target("ends", how, str(run.random.randrange(1, 1500)))
        recording = run.begin(target.pid, run.random.uniform(0.05, 0.5))
        _wait_for_end(target)
        run.collect_any(recording)
        _check(run, target, how, WAYS[how])


@scenario("gcc")
def killed_at_random_moments(run: Run) -> None:
    """SIGKILL from outside at any moment of attach, recording and stop."""
    for _ in range(max(4, round(run.seconds))):
        target = run.target("ends", "wait")
        recording = run.begin(target.pid, run.random.uniform(0.05, 0.5))
        time.sleep(run.random.uniform(0.1, 1.2))  # the moment is what is tested
        os.kill(target.pid, signal.SIGKILL)
        _wait_for_end(target)
        run.collect_any(recording)
        _check(run, target, "wait", -signal.SIGKILL)


@scenario("gcc")
def main_thread_ends(run: Run) -> None:
    """main ends by pthread_exit, the others a moment later: the process must not wait for us."""
    target = run.target("ends", "thread", "0")
    recording = run.begin(target.pid, 60.0)
    assert recording.wait_begun(), recording.outcome().error
    time.sleep(run.seconds / 4)
    target.close_input()
    _wait_for_end(target)
    run.collect(recording)
    _check(run, target, "thread", 0)
