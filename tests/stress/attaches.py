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
    """``record -- CMD`` for programs that live for 50 ms: a profile, and their own exit code.

    On a machine with many processes for each core the sampler may not get a turn within 50 ms: one
    profile out of some tries is asked for. What a program held at its start uses is not its own.
    """
    profiles = 0
    for number in range(max(5, round(run.seconds / 4))):
        out = run.folder / f"{number}.folded"
        arguments = ("-r", 1000, "-o", out, "--", run.program("ends"), "return", 50)
        began = time.monotonic()
        result = cli.run("record", *arguments, timeout_s=STARTED_S)
        run.fact("longest_s", time.monotonic() - began)
        run.expect(result.exit_code == 3, f"exit code {result.exit_code}: {result.stderr}")
        lines = result.stdout.splitlines()
        whole = lines[:1] == ["ready "] and lines[-1:] == ["last"]
        run.expect(whole, f"its output: {lines[:2]} … {lines[-2:]}")
        if out.exists():
            own = read_folded(out).where(lambda stack: stack != ("_start",))
            profiles += own.share("work_until") > 0.5
    run.expect(profiles > 0, "not one profile")
    run.fact("profiles", profiles)
