"""The first promise: the target is never harmed. Each test here is a way in which it could be."""

from __future__ import annotations

import ctypes
import os
import re
import signal
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

import cli
import kernel
import receipt
from nightly import nightly
from recording import capturing, record
from running import Start, Target, wait_until
from stacks import read_folded
from targetbuild import Builder

pytestmark = pytest.mark.needs("attach", "gcc")

CYCLES = int(os.environ.get("FLAMETAP_TEST_CYCLES", "3"))
# The attach itself stops the main thread for some 130 ms; the rest is allowance.
LONGEST_GAP_US = 700_000
# The stop is many turns, of the target and of what attaches to it, and each may have to wait for a
# CPU as long as a ticker nobody attaches to: so many of them may be as late as its latest tick.
LATE_TURNS = 4


@pytest.mark.parametrize(
    "command",
    ["ratio", "bursts", "parked short", *nightly("parked long", "sleeper")],
)
def test_nothing_stays_behind(start: Start, command: str, seconds: float) -> None:
    target = start(*command.split())
    before = receipt.take(target.pid)
    result = cli.run(
        "record", "-p", target.pid, "-d", seconds, "-r", 1000, "-o", os.devnull, "-f", "folded"
    )
    assert result.exit_code in (0, 6), result.stderr
    assert receipt.harm_after_settling(target.pid, before) == []
    target.finish()


def test_an_attach_unpacks_and_starts_no_other_program(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    target = start("ratio")
    record(target.pid, 1.0)  # time enough for Frida to find that there are no phones
    found = [path.name for path in tmp_path.rglob("*")]
    assert not [name for name in found if name.startswith(("frida", "idun"))], found


def test_output_goes_on_unbroken(start: Start, tmp_path: Path, seconds: float) -> None:
    target = start("ticker")
    _record_ticker(target, tmp_path, seconds)
    _longest_gap_us(target)


@pytest.mark.nightly  # times, on a machine that may be busy
def test_output_pauses_no_longer_than_an_attach_takes(
    start: Start, tmp_path: Path, seconds: float
) -> None:
    target, control = start("ticker"), start("ticker")
    _record_ticker(target, tmp_path, seconds)
    allowance_us = LONGEST_GAP_US + LATE_TURNS * _longest_gap_us(control)
    assert _longest_gap_us(target) < allowance_us


def _record_ticker(target: Target, folder: Path, seconds: float) -> None:
    wait_until(lambda: len(target.lines) > 10, "10 ticks")
    out = folder / "out.folded"
    cli.run("record", "-p", target.pid, "-d", seconds, "-r", 1000, "-o", out).assert_saved()
    ticks = len(target.lines)
    wait_until(lambda: len(target.lines) > ticks + 10, "10 ticks after the recording")


def _longest_gap_us(ticker: Target) -> int:
    """End a ticker and take its lines: none is missing, doubled or torn."""
    *ticks, last = ticker.finish()
    assert last == "done"
    assert ticker.errors == []
    times_us = []
    for number, line in enumerate(ticks):
        found = re.fullmatch(rf"tick {number} (\d+)", line)
        assert found, f"line {number} is {line!r}"
        times_us.append(int(found[1]))
    return max(after - before for before, after in pairwise(times_us))


def test_many_attaches_in_a_row_leave_it_healthy(start: Start) -> None:
    """One process of ours after another, as a user would: Frida attaches once a process."""
    target = start("parked", "short")
    before = receipt.take(target.pid)
    arguments = ("record", "-p", target.pid, "-d", 0.1, "-r", 1000, "-o", os.devnull, "-q")
    for cycle in range(CYCLES):
        result = cli.run(*arguments, "-f", "folded")
        assert result.exit_code in (0, 6), f"cycle {cycle}: {result.stderr}"
    assert receipt.harm_after_settling(target.pid, before, attaches=CYCLES) == []
    for line in target.finish():
        assert re.fullmatch(r"\w+ returns=\d\d+ eintr=0", line), line


def test_registers_and_red_zone_survive_attach_samples_and_detach(start: Start) -> None:
    target = start("vectors")
    for _ in range(4):
        record(target.pid, 0.2, rate_hz=1000)
    assert target.finish() == ["corrupt 0"]


def test_its_own_signals_all_arrive_and_none_of_ours(start: Start, seconds: float) -> None:
    target = start("signals")
    before = receipt.take(target.pid)
    capture = record(target.pid, seconds, rate_hz=1000)
    assert capture.status().counters["signals_handled"] > 0
    # Its own signals are pending or blocked (in a handler) at any moment: that says nothing.
    found = receipt.harm_after_settling(target.pid, before, timeout_s=1)
    assert [line for line in found if not re.search("SigPnd|ShdPnd|SigBlk", line)] == []
    (report,) = target.finish()
    counts = re.fullmatch(r"sent (\d+) urg (\d+) rt (\d+) foreign 0 prof runs", report)
    assert counts, report
    assert counts[1] == counts[2] == counts[3], report


def test_threads_libraries_and_children_that_come_and_go(start: Start, seconds: float) -> None:
    target = start("churn")
    capture = record(target.pid, seconds, rate_hz=1000)
    (report,) = target.finish()
    assert re.fullmatch(r"rounds \d+", report), report
    names = {info.name for info in capture.profile.thread_infos()}
    assert names <= {"churn", "[ended threads]"}, names
    assert len(capture.profile.thread_infos()) > 10


def test_killed_profiler_leaves_the_target_alone(start: Start, tmp_path: Path) -> None:
    target = start("parked", "short")
    before = receipt.take(target.pid)
    arguments = ("record", "-p", target.pid, "-r", 1000, "-o", tmp_path / "out.folded")
    with cli.Running(str(tmp_path), *arguments) as run:
        wait_until(lambda: kernel.catches(target.pid, signal.SIGURG), "sampling to begin")
        run.process.kill()
        run.process.wait()
    assert receipt.harm_after_settling(target.pid, before, timeout_s=60, was_killed=True) == []
    for line in target.finish():
        assert re.fullmatch(r"\w+ returns=\d\d+ eintr=0", line), line


def test_agent_and_frida_are_not_in_the_profile(start: Start, seconds: float) -> None:
    target = start("ratio")
    capture = record(target.pid, seconds, rate_hz=1000)
    assert [info.tid for info in capture.profile.thread_infos()] == [target.pid]
    target.finish()


@pytest.mark.nightly  # how far the end is when the second one comes depends on the moment
def test_second_ctrl_c_ends_at_once_and_does_no_harm(start: Start, tmp_path: Path) -> None:
    target = start("parked", "short")
    before = receipt.take(target.pid)
    arguments = ("record", "-p", target.pid, "-r", 1000, "-o", tmp_path / "out.folded")
    with cli.Running(str(tmp_path), *arguments) as run:
        wait_until(lambda: kernel.catches(target.pid, signal.SIGURG), "sampling to begin")
        run.interrupt()
        time.sleep(0.005)
        run.interrupt()
        # The first one may have done all there was to do, or found that nothing was sampled yet.
        assert run.result().exit_code in (0, 6, 130, -signal.SIGINT), run.output
    assert "Traceback" not in run.output, run.output
    found = receipt.harm_after_settling(target.pid, before, timeout_s=60, was_killed=True)
    assert found == []
    for line in target.finish():
        assert re.fullmatch(r"\w+ returns=\d\d+ eintr=0", line), line


def test_exec_ends_the_recording_and_the_new_program_runs(
    adopt: Callable[[Target], Target], builder: Builder, tmp_path: Path
) -> None:
    program = builder.program("ratio")
    script = f"echo 'ready '; read go; exec {program}"
    target = adopt(Target(["sh", "-c", script]))
    out = tmp_path / "out.folded"
    arguments = ("record", "-p", target.pid, "-r", 1000, "--clock", "wall", "-o", out)
    with cli.Running(str(tmp_path), *arguments) as run:
        wait_until(lambda: kernel.catches(target.pid, signal.SIGURG), "sampling to begin")
        time.sleep(2.0)  # for a first stack, also on a busy machine
        target.say("go", timeout_s=120)
        result = run.result()
    result.assert_saved()
    assert "exec" in result.stderr, result.stderr
    assert read_folded(out).total > 0
    wait_until(lambda: target.lines == ["ready ", "ready "], "the new program")
    assert target.finish()[-1].startswith("cycles ")


def loader_hook(pid: int) -> bytes:
    """First byte of the function that the dynamic loader calls for debuggers (r_brk, <link.h>)."""

    def loader_base(of: int | str) -> int:
        return min(
            int(line.partition("-")[0], 16)
            for line in Path(f"/proc/{of}/maps").read_text().splitlines()
            if "ld-linux" in line
        )

    ours = ctypes.c_uint64.in_dll(ctypes.CDLL(None), "_r_debug")
    brk = ctypes.c_uint64.from_address(ctypes.addressof(ours) + 16).value
    with open(f"/proc/{pid}/mem", "rb") as memory:
        memory.seek(brk - loader_base("self") + loader_base(pid))
        return memory.read(1)


def test_loader_calls_nothing_of_fridas_while_sampling(start: Start) -> None:
    """Threads that load libraries would run Frida's code, also while it leaves."""
    target = start("parked", "short")
    before = receipt.take(target.pid)
    for _ in range(3):
        with capturing(target.pid, way="frida"):
            assert loader_hook(target.pid) != b"\xe9"
    assert receipt.harm_after_settling(target.pid, before, timeout_s=60, attaches=3) == []
    for line in target.finish():
        assert re.fullmatch(r"\w+ returns=\d\d+ eintr=0", line), line
