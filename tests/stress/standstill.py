"""Scenarios in which the target, or the profiler, is stopped, frozen or killed at any moment."""

from __future__ import annotations

import contextlib
import functools
import os
import re
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import kernel
from flametap.linux import procfs
from harness import Run, scenario
from running import wait_until

FREEZER = Path("/sys/fs/cgroup/freezer")
# From the end of the host to the end of the agent: 5 s on a machine that has the time.
GONE_S = 120.0
# What the profiler does until it samples takes so long, the longest of all moments to be met.
START_S = 2.0


def _has_agent(pid: int) -> bool:
    return "frida-agent" in Path(f"/proc/{pid}/maps").read_text()


def check_parked(run: Run, lines: list[str], *, allowed: int = 0) -> None:
    """No wait of the target was cut short, or no more than ``allowed`` each."""
    for line in lines:
        found = re.fullmatch(r"\w+ returns=(\d+) eintr=(\d+)", line)
        run.expect(found and int(found[1]) > 0 and int(found[2]) <= allowed, line)


def _is_at_rest(pid: int, threads: int) -> bool:
    return len(os.listdir(f"/proc/{pid}/task")) == threads and not _has_agent(pid)


def _has_ended(pid: int) -> bool:
    with contextlib.suppress(*procfs.GONE):
        return procfs.read_task_state(pid, pid) in "ZX"
    return True


def _host_ends(run: Run, end: Callable[[int], None], *, moments: int) -> None:
    """End the profiler at random moments from its start on; the target must not care."""
    target = run.target("parked", "short")
    threads = len(os.listdir(f"/proc/{target.pid}/task"))
    for _ in range(moments):
        with run.unharmed(target.pid, was_killed=True):
            recording = run.begin(target.pid, 1.0)
            time.sleep(run.random.uniform(0.1, START_S))
            helpers = kernel.children(recording.process.pid)
            end(recording.process.pid)
            for helper in helpers:
                wait_until(functools.partial(_has_ended, helper), "what attaches to end", GONE_S)
            wait_until(lambda: _is_at_rest(target.pid, threads), "the agent to leave", GONE_S)
            recording.kill()
            recording.process.wait()
    check_parked(run, target.finish())


@scenario("gcc")
def host_killed_at_any_moment(run: Run) -> None:
    """SIGKILL for the profiler during attach, load, start, recording, stop or detach."""
    _host_ends(run, lambda pid: os.kill(pid, signal.SIGKILL), moments=4)


@scenario("gcc")
def host_stopped_at_any_moment(run: Run) -> None:
    """SIGSTOP for the profiler, for as long as it takes the agent to leave, then SIGKILL."""
    target = run.target("parked", "short")
    threads = len(os.listdir(f"/proc/{target.pid}/task"))
    with run.unharmed(target.pid, was_killed=True):
        recording = run.begin(target.pid, 30.0)
        if recording.wait_begun():
            time.sleep(run.random.uniform(0.0, 0.5))
            os.kill(recording.process.pid, signal.SIGSTOP)
            wait_until(lambda: _is_at_rest(target.pid, threads), "the agent to leave", GONE_S)
        recording.kill()
    check_parked(run, target.finish())


@contextlib.contextmanager
def _stopped(pid: int) -> Iterator[None]:
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


@scenario("gcc")
def target_stopped_again_and_again(run: Run) -> None:
    """SIGSTOP and SIGCONT at random while it is recorded: that time is in no stack."""
    target = run.target("ratio")
    with run.unharmed(target.pid):
        recording = run.begin(target.pid, max(run.seconds, 3.0))
        if recording.wait_begun():
            for _ in range(4):
                time.sleep(run.random.uniform(0.05, 0.3))
                with _stopped(target.pid):
                    time.sleep(run.random.uniform(0.1, 0.4))
        outcome = run.collect(recording)
    run.expect(outcome.counters["gaps"] > 0, f"no gap was seen: {outcome.counters}")
    target.finish()


@scenario("gcc")
def target_stopped_for_longer_than_the_host_waits(run: Run) -> None:
    """SIGSTOP for six seconds: the agent does not take that for the silence of its host."""
    target = run.target("ratio")
    with run.unharmed(target.pid):
        recording = run.begin(target.pid, 8.0)
        if recording.wait_begun():
            time.sleep(0.3)
            with _stopped(target.pid):
                time.sleep(6.0)
        outcome = run.collect(recording)
    run.expect(outcome.reason in ("", "stopped"), f"it ended: {outcome.reason} {outcome.notes}")
    run.expect(outcome.counters["gap_ns"] > 5e9, f"gaps: {outcome.counters['gap_ns'] / 1e9} s")
    target.finish()


@contextlib.contextmanager
def _frozen(group: Path) -> Iterator[None]:
    state = group / "freezer.state"
    state.write_text("FROZEN")
    wait_until(lambda: state.read_text().strip() == "FROZEN", "the group to freeze")
    try:
        yield
    finally:
        state.write_text("THAWED")


@scenario("gcc")
def target_frozen_by_its_group(run: Run) -> None:
    """The cgroup freezer (version 1), while it is recorded and while we want to leave it."""
    if not os.access(FREEZER / "tasks", os.W_OK):
        return
    target = run.target("parked", "short")
    group = FREEZER / f"flametap-{target.pid}"
    group.mkdir()
    run.at_end(lambda: wait_until(lambda: _removed(group), "the group to go"))
    (group / "cgroup.procs").write_text(str(target.pid))
    with run.unharmed(target.pid):
        recording = run.begin(target.pid, 2.0)
        if recording.wait_begun():
            for _ in range(3):
                time.sleep(run.random.uniform(0.05, 0.2))
                with _frozen(group):
                    time.sleep(run.random.uniform(0.1, 0.4))
        run.collect(recording)
    threads = len(os.listdir(f"/proc/{target.pid}/task"))
    with run.unharmed(target.pid, attaches=2):
        recording = run.begin(target.pid, 0.5)
        if recording.wait_begun():
            with _frozen(group):
                time.sleep(3.0)  # over the end of the recording
        run.collect_any(recording)
        wait_until(lambda: _is_at_rest(target.pid, threads), "the agent to leave", GONE_S)
    # The freezer itself cuts waits short that know no restart, once each time (epoll_wait, accept).
    check_parked(run, target.finish(), allowed=4)


def _removed(group: Path) -> bool:
    with contextlib.suppress(OSError):
        for pid in (group / "cgroup.procs").read_text().split():
            (FREEZER / "cgroup.procs").write_text(pid)  # where the scenario was cut short
        group.rmdir()
    return not group.exists()
