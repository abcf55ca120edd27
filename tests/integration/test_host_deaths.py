"""The host dies, or is stopped, at any step of an attach: the target goes on as if nothing had
been, and the next attach succeeds.

strace(1) sends the signal as the host begins the n-th system call of a kind, so each step of the
attach is met, also those within the one stop of the target.
"""

from __future__ import annotations

import contextlib
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import cli
import counted
import receipt
from flametap.linux.tasks import tasks
from nightly import nightly
from running import Start, Target, wait_until

pytestmark = pytest.mark.needs("attach", "gcc", "strace")

# One whole attach by one process; prints a line when it is over.
HOST = """
import sys, time
from flametap.inject.link.session import Session
from flametap.inject.ways import injector_for
pid = int(sys.argv[1])
session = Session(pid, injector_for(pid, "direct")[0])
session.attach(1000.0)
session.start()
time.sleep(0.05)
session.stop()
session.close()
print("over", flush=True)
"""
CYCLES = int(os.environ.get("FLAMETAP_TEST_CYCLES", "3"))
HOST_S = 60.0
GONE_S = 120.0
# Our thread waits for 3 s: of a host that is stopped for longer the attach fails, but for one that
# holds a thread of the target meanwhile.
STOPPED_S = float(os.environ.get("FLAMETAP_TEST_STOPPED_S", "1"))
TOO_LONG_S = 3.0
BUSY = 6
# The calls of an attach in the order in which they come first: seize, interrupt, registers, mask,
# signals of thread and process, sequence, registers, detach; stub, code, boot, go, gate, restorer.
STEPS = [
    *(("ptrace", step) for step in range(1, 10)),
    *(("pwrite64", step) for step in range(1, 7)),
]
# A thread that computes is looked at, and sent to the stub once more; its answer is one write more.
LATER = [*(("ptrace", step) for step in range(10, 20)), ("pwrite64", 7)]
FEW = [("ptrace", 2), ("ptrace", 8), ("ptrace", 9), ("pwrite64", 1), ("pwrite64", 3)]
# One that waits in every way there is, and one whose threads all compute.
TARGETS = ["parked short", "ratio"]
FIRST = [(*step, program) for step in FEW for program in TARGETS]
REST = [(*step, program) for step in STEPS if step not in FEW for program in TARGETS]
REST += [(*step, "ratio") for step in LATER if step != ("ptrace", 12)]


def host_with(pid: int, inject: str, log: str | Path = os.devnull) -> subprocess.Popen[str]:
    """Start a host that gets a signal at a step."""
    command = ["strace", "-f", "-o", str(log), "-e", f"inject={inject}"]
    return subprocess.Popen(
        [*command, sys.executable, "-c", HOST, str(pid)], stdout=subprocess.PIPE, text=True
    )


@contextlib.contextmanager
def busy(cpu: int) -> Iterator[None]:
    """Keep a CPU busy, so that a thread of lower rank waits for it nearly all the time."""
    code = f"import os; os.sched_setaffinity(0, {{{cpu}}}); print()\nwhile True: pass"
    with contextlib.ExitStack() as stack:
        for _ in range(BUSY):
            process = stack.enter_context(
                subprocess.Popen([sys.executable, "-uc", code], stdout=subprocess.PIPE)
            )
            stack.callback(process.kill)
            assert process.stdout is not None
            process.stdout.readline()
        yield


def assert_unharmed(target: Target, before: receipt.Receipt, folder: Path) -> None:
    """Nothing is left but the stub, which nobody runs; and that not after the next attach."""

    found = receipt.harm_after_settling(target.pid, before, timeout_s=GONE_S, was_killed=True)
    assert found == []
    output = folder / "next.folded"
    cli.run("record", "-p", target.pid, "-d", 0.2, "--clock", "wall", "-o", output).assert_saved()
    assert receipt.harm_after_settling(target.pid, before, attaches=2) == []
    for line in target.finish():
        if "eintr" in line:
            assert re.fullmatch(r"\w+ returns=\d+ eintr=0", line), line


@pytest.mark.parametrize(
    ("call", "step", "program"), [*FIRST, ("ptrace", 12, "ratio"), *nightly(*REST)]
)
def test_host_killed_at_a_step(
    start: Start, tmp_path: Path, call: str, step: int, program: str
) -> None:
    target = start(*program.split())
    before = receipt.take_at_rest(target.pid)
    with host_with(target.pid, f"{call}:signal=SIGKILL:when={step}") as host:
        said, _ = host.communicate(timeout=HOST_S)
    assert said == "", "the step was not met"
    assert_unharmed(target, before, tmp_path)


def test_thread_that_gets_false_requests_ends_without_its_host(start: Start) -> None:
    """The target writes requests at random, and the host dies before its first."""
    target = start("fighters", "write-control", "1")
    before = receipt.take_at_rest(target.pid)
    with host_with(target.pid, "pwrite64:signal=SIGKILL:when=5") as host:
        said, _ = host.communicate(timeout=HOST_S)
    assert said == "", "the step was not met"
    found = receipt.harm_after_settling(target.pid, before, timeout_s=GONE_S, was_killed=True)
    assert found == []
    counted.finish(target)


@pytest.mark.parametrize(
    ("call", "step"), [("ptrace", 8), *nightly(("ptrace", 9), ("pwrite64", 1))]
)
def test_host_stopped_at_a_step_goes_on(start: Start, tmp_path: Path, call: str, step: int) -> None:
    """A thread that stands still meanwhile goes on, too, when the host does."""
    target = start("parked", "short")
    before = receipt.take_at_rest(target.pid)
    log = tmp_path / "strace"
    log.touch()
    with host_with(target.pid, f"{call}:signal=SIGSTOP:when={step}", log) as host:
        wait_until(lambda: "stopped by SIGSTOP" in log.read_text(), "its stop", HOST_S)
        time.sleep(STOPPED_S)  # the target stands still, or not
        children = Path(f"/proc/{host.pid}/task/{host.pid}/children")
        stopped = int(children.read_text().split()[0])
        end_s = time.monotonic() + HOST_S + 2 * STOPPED_S
        # Each of its threads has an n-th call of its own, and may stop it again.
        while host.poll() is None and time.monotonic() < end_s:
            with contextlib.suppress(ProcessLookupError):
                os.kill(stopped, signal.SIGCONT)
            time.sleep(STOPPED_S)
        said, _ = host.communicate(timeout=HOST_S)
    assert said == "over\n" or (STOPPED_S > TOO_LONG_S and step != 8)
    assert_unharmed(target, before, tmp_path)


@pytest.mark.nightly
@pytest.mark.parametrize("program", TARGETS)
def test_host_killed_at_random_moments(start: Start, tmp_path: Path, program: str) -> None:
    """In an attach of 20 to 100 ms, most of them in its first half."""
    target = start(*program.split())
    before = receipt.take_at_rest(target.pid)
    draw = random.Random(program)
    for _ in range(50 * CYCLES):
        with subprocess.Popen(
            [sys.executable, "-c", HOST, str(target.pid)], stdout=subprocess.DEVNULL
        ) as host:
            time.sleep(draw.uniform(0.05, 0.3))
            host.kill()
    assert_unharmed(target, before, tmp_path)


@pytest.mark.nightly
def test_thread_of_a_killed_host_that_gets_no_cpu_is_left_alone(
    start: Start, tmp_path: Path
) -> None:
    """It waits for its code, in the stub. The next host waits, too, or says so."""
    target = start("parked", "short")
    before = receipt.take_at_rest(target.pid)
    own = set(tasks(target.pid))
    with host_with(target.pid, "pwrite64:signal=SIGKILL:when=2") as host:
        host.communicate(timeout=HOST_S)
    (ours,) = set(tasks(target.pid)) - own
    cpu = min(os.sched_getaffinity(target.pid))
    os.sched_setaffinity(ours, {cpu})
    os.sched_setscheduler(ours, os.SCHED_IDLE, os.sched_param(0))
    with busy(cpu):
        done = cli.run("record", target.pid, "-d", 0.2, "-o", tmp_path / "a.folded")
    if done.exit_code:
        done.assert_refused(5, "still holds the agent of another flametap")
    assert_unharmed(target, before, tmp_path)
