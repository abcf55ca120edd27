"""`flametap record` on programs whose answer is known."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import cli
import kernel
from flametap.model import Clock, FrameKind, Verdict
from nightly import nightly
from recording import ENOUGH_CPU_S, complete_share, doubts, record, stacks
from running import Start, Target, wait_until
from stacks import read_folded

pytestmark = pytest.mark.needs("attach", "gcc")


def wait_until_sampled(target: Target, cpu_s: float) -> None:
    """Wait until sampling has begun, and the target has used that much CPU time since."""
    wait_until(lambda: kernel.catches(target.pid, signal.SIGURG), "sampling to begin")
    enough_ns = kernel.process_cpu_ns(target.pid) + cpu_s * 1e9
    wait_until(lambda: kernel.process_cpu_ns(target.pid) >= enough_ns, "CPU time")


def ends_with(*names: str) -> Callable[[tuple[str, ...]], bool]:
    return lambda stack: stack[-len(names) :] == names


def test_two_functions_with_three_to_one_work_get_three_to_one_cpu(
    start: Start, tmp_path: Path
) -> None:
    target, out = start("ratio", "200000000", "2"), tmp_path / "out.folded"
    # Four stretches, and at each of the three borders up to a gap goes to the wrong side: at 100 Hz
    # chance alone leaves 2.93 ± 0.095, at 1000 Hz 2.993 ± 0.010 (simulated).
    often = ("-r", "1000", "--budget", "0")
    with cli.Running(str(tmp_path), "record", "-p", target.pid, *often, "-o", out) as run:
        wait_until(lambda: kernel.catches(target.pid, signal.SIGURG), "sampling to begin")
        time.sleep(0.3)
        target.say("go", timeout_s=120)
        run.interrupt()
        run.result().assert_saved()
    folded = read_folded(out)
    assert folded.under("heavy") / folded.under("light") == pytest.approx(3, rel=0.05), (
        folded.heaviest()
    )
    # Both hang below all that calls them, and next to nothing hangs anywhere else.
    known = folded.where(lambda s: s[-3:-1] == ("main", "cycle") and s[-1] in ("heavy", "light"))
    assert known.total >= 0.99 * folded.total, folded.heaviest()
    target.finish()


@pytest.mark.nightly
def test_omitted_frame_pointers_cost_no_stack(start: Start, seconds: float) -> None:
    target = start("ratio")
    # Behind the last sample there are up to 10 ms of CPU time without a stack.
    capture = record(target.pid, seconds, rate_hz=100, cpu_s=2 * ENOUGH_CPU_S)
    assert complete_share(capture) >= 0.99, doubts(capture)
    target.finish()


@pytest.mark.needs("g++")
def test_inlined_functions_and_threads_have_names(start: Start, seconds: float) -> None:
    target = start("inlines")
    capture = record(target.pid, seconds, cpu_s=ENOUGH_CPU_S)
    assert complete_share(capture) >= 0.99, doubts(capture)
    seen = stacks(capture)
    for size in (3, 5):
        run = f"shapes::Mixer<{size}>::run"
        chain = ("worker", run, f"shapes::Mixer<{size}>::round", "shapes::twist")
        inlined = seen.where(ends_with(*chain))
        assert inlined.total >= 0.9 * seen.under(run) > 0, seen.heaviest()
    assert seen.share("worker") >= 0.99, seen.heaviest()
    names = {info.name: info.cpu_ns for info in capture.profile.thread_infos()}
    for index in range(4):
        assert names[f"mixer-{index}"] > 0, names
    assert set(names) <= {"inlines", *(f"mixer-{index}" for index in range(4))}, names
    # Four equal threads; how the kernel deals out a busy machine is not ours to say.
    per_thread = [names[f"mixer-{index}"] for index in range(4)]
    assert min(per_thread) > 0.02 * sum(per_thread), names
    assert target.finish() == ["mixed 1"]


def test_threads_option_gives_each_thread_its_root(start: Start, tmp_path: Path) -> None:
    target, out = start("bursts"), tmp_path / "out.folded"
    cli.run("record", "-p", target.pid, "-d", 1, "-t", "-o", out).assert_saved()
    roots = {stack[0] for stack in read_folded(out).weights}
    assert f"steady ({target.facts['steady']})" in roots
    assert f"long-rare ({target.facts['long-rare']})" in roots
    target.finish()


@pytest.mark.parametrize("depth", [1900, *nightly(500)])
def test_deep_recursion_is_complete_up_to_the_limit(start: Start, depth: int) -> None:
    target = start("deep", str(depth))
    capture = record(target.pid, 0.5, rate_hz=500, cpu_s=ENOUGH_CPU_S)
    assert complete_share(capture) >= 0.99, doubts(capture)
    seen = stacks(capture)
    whole = seen.where(lambda s: s.count("descend_even") + s.count("descend_odd") == depth + 1)
    assert whole.total >= 0.99 * seen.total, [len(s) for s in seen.weights]
    assert seen.share("main") >= 0.99
    target.finish()


@pytest.mark.nightly
def test_deeper_recursion_is_cut_and_says_so(start: Start) -> None:
    target = start("deep", "5000")
    capture = record(target.pid, 0.5, rate_hz=500, cpu_s=ENOUGH_CPU_S)
    weights = capture.status().verdict_cpu_ns
    assert weights.get(Verdict.TRUNCATED_DEPTH.name, 0) >= 0.99 * sum(weights.values()), weights
    seen = stacks(capture)
    assert seen.share("[truncated]") >= 0.99, [s[:2] for s in seen.weights]
    assert seen.share("bottom") >= 0.95
    target.finish()


def test_folded_and_speedscope_hold_the_same_total(start: Start, tmp_path: Path) -> None:
    target = start("bursts")
    folded, speedscope = tmp_path / "out.folded", tmp_path / "out.speedscope.json"
    cli.run("record", "-p", target.pid, "-d", 1, "-o", folded, "-o", speedscope).assert_saved()
    document = json.loads(speedscope.read_text())
    assert {profile["unit"] for profile in document["profiles"]} == {"nanoseconds"}
    total_ns = sum(sum(profile["weights"]) for profile in document["profiles"])
    # One is in whole microseconds, the other in nanoseconds.
    assert read_folded(folded).total == pytest.approx(total_ns / 1000, abs=1)
    target.finish()


@pytest.mark.nightly
def test_folded_total_is_the_total_of_the_profile(start: Start, tmp_path: Path) -> None:
    from flametap.export import write_file
    from flametap.export.request import ExportRequest
    from flametap.tree.selection import Selection

    target = start("bursts")
    capture = record(target.pid, 1)
    for clock in Clock:
        out = tmp_path / f"{clock.value}.folded"
        request = ExportRequest(capture.recording, Selection(clock))
        write_file(str(out), "folded", request)
        assert read_folded(out).total == pytest.approx(
            capture.profile.total_ns(clock) / 1000, abs=1
        )
    target.finish()


def test_stdout_carries_nothing_but_data(start: Start) -> None:
    target = start("ratio")
    result = cli.run("record", "-p", target.pid, "-d", 0.5, "-o", "-", "-f", "folded")
    result.assert_saved()
    from stacks import parse_folded

    assert "main" in parse_folded(result.stdout).names()
    target.finish()


@pytest.mark.parametrize("number", [signal.SIGINT, *nightly(signal.SIGTERM, signal.SIGHUP)])
def test_first_signal_stops_and_saves(start: Start, tmp_path: Path, number: int) -> None:
    target, out = start("ratio"), tmp_path / "out.folded"
    with cli.Running(str(tmp_path), "record", "-p", target.pid, "-o", out) as run:
        wait_until_sampled(target, cpu_s=0.3)
        run.interrupt(number)
        run.result(60).assert_saved()
    folded = read_folded(out)
    assert folded.share("cycle") > 0.9, folded.heaviest()
    assert not list(tmp_path.glob("*.tmp*"))
    target.finish()


@pytest.mark.nightly
def test_end_of_the_target_ends_the_recording_and_is_saved(start: Start, tmp_path: Path) -> None:
    target, out = start("ratio"), tmp_path / "out.folded"
    with cli.Running(str(tmp_path), "record", "-p", target.pid, "-o", out) as run:
        wait_until_sampled(target, cpu_s=1)
        target.finish()
        run.result(60).assert_saved()
        assert re.search("exit|ended|gone", run.output), run.output
    folded = read_folded(out)
    assert folded.under("heavy") > folded.under("light") > 0, folded.heaviest()


@pytest.mark.nightly
def test_killed_target_leaves_what_was_sampled(start: Start, tmp_path: Path) -> None:
    target, out = start("ratio"), tmp_path / "out.folded"
    with cli.Running(str(tmp_path), "record", "-p", target.pid, "-o", out) as run:
        wait_until_sampled(target, cpu_s=0.3)
        target.close()
        run.result(60).assert_saved()
    assert read_folded(out).share("cycle") > 0.9


def test_command_is_profiled_from_its_start_and_keeps_its_exit_code(tmp_path: Path) -> None:
    out = tmp_path / "out.folded"
    script = "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done; echo hello; exit 7"
    result = cli.run("record", "-o", out, "--", "sh", "-c", script)
    assert result.exit_code == 7, result.stderr
    assert result.stdout == "hello\n"
    assert read_folded(out).total > 50_000


def test_program_begins_with_the_signals_ignored_that_a_shell_has_ignored(tmp_path: Path) -> None:
    """A script's shell does that to SIGINT for what it starts with &; we take it nevertheless."""
    out = tmp_path / "out.folded"
    inside = (
        "import os, signal; os.write(1, str(signal.getsignal(2)).encode()); sum(range(3 * 10**6))"
    )
    program = [sys.executable, "-I", "-S", "-c", inside]
    prefix = ("sh", "-c", 'trap "" INT; exec "$@"', "sh")
    result = cli.run("record", "-o", out, "--", *program, prefix=prefix)
    result.assert_saved()
    assert "SIG_IGN" in result.stdout or result.stdout == "1", result.stdout


@pytest.mark.parametrize(("code", "expected"), [(0, 6), (3, 3)])
def test_program_of_which_nothing_was_saved(tmp_path: Path, code: int, expected: int) -> None:
    out = tmp_path / "out.folded"
    # A shell holds no GIL, however much CPU time it uses.
    result = cli.run("record", "--gil", "-o", out, "--", "sh", "-c", f"sleep 0.3; exit {code}")
    assert (result.exit_code, out.exists()) == (expected, False), result.stderr
    assert "nothing was saved" in result.stderr


def test_command_killed_by_a_signal_gives_128_and_its_number(tmp_path: Path) -> None:
    out = tmp_path / "out.folded"
    result = cli.run("record", "-o", out, "--", "sh", "-c", "sleep 0.3; kill -9 $$")
    assert result.exit_code == 128 + 9, result.stderr


def test_command_that_lives_50_ms_yields_a_profile(tmp_path: Path) -> None:
    out = tmp_path / "out.folded"
    spin = "import time\nend = time.process_time() + 0.05\nwhile time.process_time() < end: pass"
    python = os.path.realpath(sys.executable)
    cli.run("record", "-r", 1000, "-o", out, "--", python, "-S", "-c", spin).assert_saved()
    assert read_folded(out).total > 0


def test_flametap_dies_first_when_memory_runs_out_and_the_command_as_any_other(
    tmp_path: Path,
) -> None:
    """The command tells its own score and, once it is recorded, those of flametap, its parent, and
    of its helpers that have hold of it, which must not die in the middle."""
    script = """
import os, time
from pathlib import Path
def read(pid, name):
    return Path(f"/proc/{pid}/{name}").read_text().strip()
def helpers():
    parent = os.getppid()
    pids = read(parent, f"task/{parent}/children").split()
    return [pid for pid in pids if read(pid, "comm") == "ft-inject"]
until = time.monotonic() + 120
while not helpers() and time.monotonic() < until:
    pass
own, parent = (read(pid, "oom_score_adj") for pid in (os.getpid(), os.getppid()))
print(own, parent, *{read(pid, "oom_score_adj") for pid in helpers()})
"""
    options = ("record", "-q", "--clock", "wall", "-o", tmp_path / "out.folded", "--")
    command = (*options, sys.executable, "-S", "-c", script)
    result = cli.run(*command, prefix=("choom", "-n", "300", "--"))
    assert result.stdout == "300 1000 300\n", result.stderr


def test_commands_output_and_exit_code_are_its_own_however_short(tmp_path: Path) -> None:
    out = tmp_path / "out.folded"
    options = ("record", "-q", "--clock", "wall", "-o", out, "--")
    assert cli.run(*options, "/bin/true").exit_code == 0
    assert cli.run(*options, "/bin/false").exit_code == 1
    result = cli.run(*options, "sh", "-c", "echo hello | tr a-z A-Z; exit 7")
    assert (result.stdout, result.exit_code) == ("HELLO\n", 7)


def test_functions_that_left_no_frame(start: Start, seconds: float) -> None:
    target = start("tailcalls", variant="debug")
    capture = record(target.pid, seconds, cpu_s=2 * ENOUGH_CPU_S)
    assert complete_share(capture) >= 0.99, doubts(capture)
    seen = stacks(capture)
    # A quarter of the time each: by the only way, by one of two, perhaps by a pointer, called.
    assert seen.where(ends_with("main", "first", "second", "last")).total > 0.15 * seen.total
    assert seen.where(ends_with("main", "last")).total > 0.45 * seen.total, seen.heaviest()
    assert not seen.where(lambda s: "left" in s and s[-1] == "last").total, seen.heaviest()
    kinds = {f.name: f.kind for f in capture.names.functions if f.name in ("first", "second")}
    assert set(kinds.values()) == {FrameKind.TAIL_CALL}
    target.finish()


def test_time_in_the_kernel_has_the_name_of_the_system_call(seconds: float) -> None:
    copying = subprocess.Popen(
        ["dd", "if=/dev/zero", "of=/dev/null", "bs=256K"], stderr=subprocess.DEVNULL
    )
    try:
        seen = stacks(record(copying.pid, seconds, cpu_s=ENOUGH_CPU_S))
    finally:
        copying.kill()
        copying.wait()
    in_kernel = seen.where(lambda s: s[-1] in ("[read]", "[write]"))
    assert in_kernel.total > 0.9 * seen.total, seen.heaviest()
    assert seen.where(ends_with("[read]")).under("read") > 0.5 * seen.total, seen.heaviest()
