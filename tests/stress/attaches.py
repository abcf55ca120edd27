"""Many attaches: one after another to one target, to many at once, and to very short lives."""

from __future__ import annotations

import re
import time

import cli
from harness import STARTED_S, Run, scenario
from running import Target
from stacks import read_folded


@scenario("gcc")
def attach_again_and_again(run: Run) -> None:
    """One target, attached to many times, each time by a new process."""
    target = run.target("parked", "short")
    cycles = max(3, round(run.seconds))
    with run.unharmed(target.pid, attaches=cycles):
        for _ in range(cycles):
            run.collect(run.begin(target.pid, 0.3))
    _check_waits(run, target)


@scenario("gcc")
def many_targets(run: Run) -> None:
    """Eight targets recorded at the same time, by eight processes."""
    targets = [run.target("parked", "short") for _ in range(4)]
    targets += [run.target("bursts") for _ in range(2)] + [run.target("sleeper") for _ in range(2)]
    recordings = [run.begin(target.pid) for target in targets]
    for recording in recordings:
        run.collect(recording)
    for target in targets[:4]:
        _check_waits(run, target)
    for target in targets[4:]:
        target.finish()


def _check_waits(run: Run, target: Target) -> None:
    for line in target.finish():
        run.expect(re.fullmatch(r"\w+ returns=\d+ eintr=0", line), line)


@scenario("gcc")
def command_of_50_ms(run: Run) -> None:
    """``record -- CMD`` for programs that live for 50 ms: a profile, and their own exit code."""
    for number in range(max(2, round(run.seconds / 8))):
        out = run.folder / f"{number}.folded"
        program = run.program("ends")
        began = time.monotonic()
        arguments = ("record", "-r", 1000, "-o", out, "--", program, "return", 50)
        result = cli.run(*arguments, timeout_s=STARTED_S)
        run.fact("longest_s", time.monotonic() - began)
        run.expect(result.exit_code == 3, f"exit code {result.exit_code}: {result.stderr}")
        lines = result.stdout.splitlines()
        whole = lines[:1] == ["ready "] and lines[-1:] == ["last"]
        run.expect(whole, f"its output: {lines[:2]} … {lines[-2:]}")
        if run.expect(out.exists(), f"no profile: {result.stderr}"):
            folded = read_folded(out)
            run.expect(folded.share("work_until") > 0.8, f"elsewhere:\n{folded.heaviest()}")
