"""The agent ends by itself when its host is stopped, killed or lost, at whatever moment, and harms
nobody."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import cli
import kernel
import receipt
from nightly import nightly
from recording import capturing
from running import Start, Target, wait_until

pytestmark = pytest.mark.needs("attach", "gcc")

ATTACHED_S = 120.0
# The promise is 5 s on a machine that has the time; nothing is left undone after 15 on any.
GONE_S = 120.0

# Attaches and prepares, and then does nothing more: in the place of a host that dies in between.
ONLY_PREPARE = """
import sys, time
from flametap.inject.link.session import Session
from flametap.inject.ways import injector_for
pid, way = int(sys.argv[1]), sys.argv[2]
Session(pid, injector_for(pid, way)[0]).attach(100.0)
print("prepared", flush=True)
time.sleep(600)
"""


def _maps(pid: int) -> str:
    return Path(f"/proc/{pid}/maps").read_text()


def _is_sampled(pid: int) -> bool:
    return kernel.catches(pid, signal.SIGURG)


def _assert_gone(target: Target, before: receipt.Receipt) -> None:
    """Nothing of ours is left; the host may still be there, stopped."""
    found = receipt.harm_after_settling(target.pid, before, timeout_s=GONE_S, was_killed=True)
    assert found == []
    assert "flametap-ring" not in _maps(target.pid)


def _finish_parked(target: Target) -> None:
    for line in target.finish():
        assert re.fullmatch(r"\w+ returns=\d\d+ eintr=0", line), line


@contextmanager
def _recording(target: Target, folder: Path, *more: object) -> Iterator[cli.Running]:
    arguments = ("record", "-p", target.pid, "-r", 1000, "--budget", 0, *more)
    with cli.Running(str(folder), *arguments, "-o", folder / "out.folded") as run:
        wait_until(lambda: _is_sampled(target.pid), "sampling to begin", ATTACHED_S)
        try:
            yield run
        finally:
            run.process.send_signal(signal.SIGCONT)


def test_stopped_host_is_given_up_and_ends_in_order_when_it_goes_on(
    start: Start, tmp_path: Path
) -> None:
    target = start("parked", "short")
    before = receipt.take(target.pid)
    with _recording(target, tmp_path, "--clock", "wall") as run:
        run.interrupt(signal.SIGSTOP)
        _assert_gone(target, before)
        assert run.process.poll() is None
        run.interrupt(signal.SIGCONT)
        result = run.result()
    assert result.exit_code == 0, result.stderr
    assert "flametap was stopped for too long" in result.stderr
    assert "Traceback" not in result.stderr
    assert (tmp_path / "out.folded").read_text().strip()
    _finish_parked(target)


def test_host_stopped_for_a_moment_goes_on(start: Start, tmp_path: Path) -> None:
    target = start("parked", "short")
    before = receipt.take(target.pid)
    with _recording(target, tmp_path, "--clock", "wall", "-d", 2) as run:
        run.interrupt(signal.SIGSTOP)
        stopped = Path(f"/proc/{run.process.pid}/stat")
        wait_until(lambda: stopped.read_text().rsplit(")", 1)[1].split()[0] == "T", "the stop")
        run.interrupt(signal.SIGCONT)
        wait_until(lambda: _is_sampled(target.pid), "sampling to go on")
        result = run.result()
    assert result.exit_code == 0, result.stderr
    assert "too long" not in result.stderr
    assert receipt.harm_after_settling(target.pid, before) == []
    _finish_parked(target)


@pytest.mark.parametrize("command", ["ratio", *nightly("parked long", "sleeper")])
def test_killed_host_leaves_a_busy_and_a_waiting_target_alone(
    start: Start, tmp_path: Path, command: str
) -> None:
    target = start(*command.split())
    before = receipt.take(target.pid)
    with _recording(target, tmp_path) as run:
        run.process.kill()
        run.process.wait()
        _assert_gone(target, before)
    target.finish()


@pytest.mark.parametrize("way", ["direct", "frida"])
@pytest.mark.parametrize("number", [signal.SIGKILL, *nightly(signal.SIGSTOP)])
def test_host_that_ends_before_sampling_begins(
    start: Start, number: signal.Signals, way: str
) -> None:
    target = start("parked", "short")
    before = receipt.take(target.pid)
    command = [sys.executable, "-c", ONLY_PREPARE, str(target.pid), way]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as host:
        try:
            assert host.stdout is not None
            assert host.stdout.readline() == "prepared\n"
            host.send_signal(number)
            _assert_gone(target, before)
        finally:
            host.kill()
    _finish_parked(target)


def test_stopped_target_does_not_take_its_host_for_dead(start: Start) -> None:
    """What stood still was the agent: that says nothing of its host."""
    target = start("ratio")
    with capturing(target.pid) as capture:
        wait_until(lambda: capture.status().samples > 0, "samples", ATTACHED_S)
        target.signal(signal.SIGSTOP)
        assert not capture.wait(4.0)  # longer than the agent waits for a beat
        target.signal(signal.SIGCONT)
        seen = capture.status().samples
        wait_until(lambda: capture.status().samples > seen, "samples again", ATTACHED_S)
        assert capture.status().state == "recording"
        capture.stop()
        status = capture.status()
    assert status.counters["gaps"] >= 1, status.counters
    target.finish()
