"""Targets that make other processes, or become another program, while they are sampled."""

from __future__ import annotations

import re
import time

import kernel
import receipt
from harness import Outcome, Run, scenario
from load import READY_S
from running import Target, wait_until

# What the target says of the time since the last question; see tests/targets/children.c.
ALONE_S = 1.0
LEFT_S = 8.0
ANSWER = re.compile(r"made (\d+) median_us (\d+) longest_us (\d+) eintr (\d+)")


def _ask(target: Target) -> tuple[int, int, int, int]:
    """Children made, median and longest time of the call in us, EINTRs since the last question."""
    target.say("?", READY_S)
    found = ANSWER.fullmatch(target.lines[-1])
    assert found, target.lines[-3:]
    made, median_us, longest_us, eintr = (int(group) for group in found.groups())
    return made, median_us, longest_us, eintr


def _children(run: Run, how: str, mib: int = 0) -> None:
    """Make a target make children, first alone, then recorded."""
    target = run.target("children", how, str(mib))
    _ask(target)
    time.sleep(ALONE_S)
    _, alone_us, _, _ = _ask(target)
    with run.unharmed(target.pid):
        recording = run.begin(target.pid)
        assert recording.wait_begun(), recording.outcome().error
        _ask(target)
        outcome = run.collect(recording)
    made, median_us, _, eintr = _ask(target)
    run.expect(made > 0, "not one child was made while it was recorded")
    run.expect(eintr == 0, f"{eintr} times EINTR")
    run.expect(outcome.threads <= 2, f"{outcome.threads} threads: children among them?")
    run.fact("median_us_alone", alone_us)
    run.fact("median_us_recorded", median_us)
    target.finish()


@scenario("gcc")
def fork_small(run: Run) -> None:
    """Small children, one after another: one thread each, exit codes of their own."""
    _children(run, "fork")


@scenario("gcc")
def fork_2_gib(run: Run) -> None:
    """A process of 2 GiB that forks: each takes longer than the time between two samples."""
    _children(run, "fork", 2048)


@scenario("gcc")
def fork_heirs(run: Run) -> None:
    """Children that need the C library's locks, made without end; recorded again and again."""
    _heirs(run, "main")


@scenario("gcc")
def fork_heirs_of_a_thread(run: Run) -> None:
    """The same, made by another thread than the main one."""
    _heirs(run, "thread")


def _heirs(run: Run, who: str) -> None:
    target = run.target("heirs", who)
    for _ in range(max(2, round(run.seconds))):
        run.collect(run.begin(target.pid, 0.5))
    *lost, summary = target.finish()
    found = re.fullmatch(r"children (\d+) hung (\d+) crashed (\d+)", summary)
    assert found, summary
    run.expect(found[2] == found[3] == "0", f"{summary} {lost}")
    run.fact("children", int(found[1]))


@scenario("gcc")
def fork_vfork(run: Run) -> None:
    """Children by vfork: the parent stands still until they exit."""
    _children(run, "vfork")


@scenario("gcc")
def fork_spawn(run: Run) -> None:
    """posix_spawn of a program, which is clone with CLONE_VFORK and a stack of its own."""
    _children(run, "spawn", 64)


@scenario("gcc")
def fork_exec(run: Run) -> None:
    """Fork and exec of a program by a process of 256 MiB."""
    _children(run, "exec", 256)


@scenario()
def shell_loop(run: Run) -> None:
    """A shell that runs programs and pipelines in a loop, and counts them."""
    program = run.folder / "loop.sh"
    program.write_text(
        "i=0\n"
        "while [ ! -e stop ]; do\n"
        "  /bin/true || exit 1\n"
        "  [ $(echo word | cat | wc -l) = 1 ] || exit 2\n"
        "  i=$((i + 1)); echo $i\n"
        "done\n"
        "echo done\n"
    )
    shell = run.start(["bash", program], cwd=run.folder)
    wait_until(lambda: shell.lines, "the first round", READY_S)
    with run.unharmed(shell.pid, ignore=lambda line: bool(re.search("fd |Sig|Pnd", line))):
        run.collect(run.begin(shell.pid))
    (run.folder / "stop").touch()
    wait_until(lambda: not shell.alive, "the shell to end", READY_S)
    run.expect(shell.exit_code == 0, f"exit code {shell.exit_code}: {shell.errors}")
    shell.close()  # and all its output is here
    *numbers, last = shell.lines
    run.expect(last == "done", f"the last line is {last!r}")
    run.expect(numbers == [str(n + 1) for n in range(len(numbers))], "a number is missing")


@scenario("gcc")
def exec_at_random_moments(run: Run) -> None:
    """A program that becomes itself again and again, at any moment of attach and recording."""
    target = run.target("reborn", str(run.random.randrange(300, 1500)))
    for _ in range(max(2, round(run.seconds / 2))):
        _record_to_exec(run, target, "")
    _finish_reborn(run, target)


@scenario("gcc")
def exec_while_recorded(run: Run) -> None:
    """A program that becomes itself again: the recording ends with that, and is kept."""
    target = run.target("reborn", "0")
    for _ in range(max(2, round(run.seconds / 2))):
        before_s = kernel.process_cpu_ns(target.pid) / 1e9
        outcome = _record_to_exec(run, target, "next")
        used_s = kernel.process_cpu_ns(target.pid) / 1e9 - before_s
        run.expect("exec" in outcome.reason, f"it ended because {outcome.reason!r}")
        missing = f"CPU time is missing, of {used_s:.2f} s by the kernel: {outcome}"
        run.expect(outcome.cpu_s > 0, missing)
    _finish_reborn(run, target)


def _record_to_exec(run: Run, target: Target, line: str) -> Outcome:
    """Record until the target becomes another program, on this line if it waits for one."""
    before = receipt.take_at_rest(target.pid)
    recording = run.begin(target.pid, 60.0)
    if line and recording.wait_begun():
        time.sleep(1.0)  # what is recorded
        target.say(line, READY_S)
    outcome = run.collect_any(recording)
    assert target.alive, f"exit code {target.exit_code}: {target.lines[-3:]}"
    # An agent that has only just arrived leaves in its own time.
    deadline = time.monotonic() + LEFT_S
    while (after := receipt.take(target.pid)).descriptors != before.descriptors:
        if time.monotonic() > deadline:
            break
        time.sleep(0.1)
    run.expect(after.descriptors == before.descriptors, f"{after.descriptors}")
    run.expect(after.signals == before.signals, f"{before.signals} {after.signals}")
    run.expect(after.tracer == 0, f"traced by {after.tracer}")
    return outcome


def _finish_reborn(run: Run, target: Target) -> None:
    *generations, last = target.finish()
    numbers = [int(line.removeprefix("generation ")) for line in generations]
    run.expect(numbers == list(range(len(numbers))), f"generations: {numbers}")
    run.expect(last.startswith("done"), f"the last line is {last!r}")
    run.fact("generations", len(numbers))
