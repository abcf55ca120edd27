"""Each refusal: its own one-line error with the remedy, its exit code, no traceback, and the target
unharmed."""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import cli
import kernel
import receipt
from nightly import nightly
from running import Start, Target, wait_until

NO_SUCH_PROCESS, NO_PERMISSION, CANNOT_ATTACH, USAGE, OUTPUT = 3, 4, 5, 2, 1


def record(pid: int, *more: object) -> cli.Result:
    """Tries to record into stdout, which stays empty when refused."""
    return cli.run("record", "-p", pid, "-d", 0.2, "-o", "-", "-f", "folded", *more)


def assert_refused_unharmed(target: Target, *patterns: str, exit_code: int = CANNOT_ATTACH) -> None:
    """Refused with exit code and message, and the target ends as if nobody had asked."""
    before = receipt.take(target.pid)
    record(target.pid).assert_refused(exit_code, *patterns)
    assert receipt.harm(before, receipt.take(target.pid), attaches=0) == []
    assert target.finish()[-1] == "done"


def test_pid_that_does_not_exist() -> None:
    with subprocess.Popen(["true"]) as gone:
        gone.wait()
    record(gone.pid).assert_refused(NO_SUCH_PROCESS, f"no process {gone.pid}", "flametap ps")


@pytest.mark.parametrize("pid", ["0", "-5", "abc", ""])
def test_pid_that_is_none(pid: str) -> None:
    result = cli.run("record", f"--pid={pid}", "-d", "0.2", "-o", "-")
    assert result.exit_code == USAGE, result.stderr
    assert "Traceback" not in result.stderr


def test_kernel_thread() -> None:
    if Path("/proc/2/comm").read_text().strip() != "kthreadd":
        pytest.skip("kernel threads cannot be seen from this container")
    record(2).assert_refused(CANNOT_ATTACH, "kernel thread")


def test_zombie() -> None:
    with subprocess.Popen(["true"]) as zombie:
        wait_until(lambda: kernel.status(zombie.pid)["State"].startswith("Z"), "a zombie")
        record(zombie.pid).assert_refused(CANNOT_ATTACH, "zombie")


@pytest.mark.needs("gcc")
def test_stopped_target_stays_stopped(start: Start) -> None:
    target = start("sleeper")
    os.kill(target.pid, signal.SIGSTOP)
    wait_until(lambda: kernel.status(target.pid)["State"].startswith("T"), "the stop")
    record(target.pid).assert_refused(CANNOT_ATTACH, "stopped", "kill -CONT")
    assert kernel.status(target.pid)["State"].startswith("T")
    os.kill(target.pid, signal.SIGCONT)
    assert target.finish() == ["done"]


@pytest.mark.parametrize(
    ("variant", "pattern"),
    [
        pytest.param("static", "static", marks=pytest.mark.needs("static-glibc")),
        pytest.param("musl-static", "static", marks=pytest.mark.needs("musl-gcc")),
        pytest.param("musl", "musl", marks=pytest.mark.needs("musl-gcc")),
    ],
)
def test_program_that_frida_cannot_enter(start: Start, variant: str, pattern: str) -> None:
    target = start("sleeper", variant=variant)
    record(target.pid, "--inject", "frida").assert_refused(CANNOT_ATTACH, pattern, "hint: ")
    assert target.finish() == ["done"]


@pytest.mark.needs("gcc-m32")
def test_32_bit(start: Start) -> None:
    assert_refused_unharmed(start("sleeper", variant="i386"), "32-bit", "hint: ")


@pytest.mark.needs("gcc", "attach")
@pytest.mark.parametrize("megabytes", [512])
def test_shared_memory_is_not_read(start: Start, megabytes: int) -> None:
    """Frida read all of it while the main thread stood still. What is read becomes resident."""
    target = start("sleeper", str(megabytes))
    before_kib = resident_shared_kib(target.pid)
    result = record(target.pid, "--clock", "wall")
    assert result.exit_code == 0, result.stderr
    assert "shared" not in result.stderr, result.stderr
    assert resident_shared_kib(target.pid) - before_kib < megabytes * 1024 / 10
    assert target.finish() == ["done"]


def resident_shared_kib(pid: int) -> int:
    """How much shared memory the process has in RAM, proc(5)."""
    (line,) = re.findall(r"RssShmem:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    return int(line)


class _Tracer:
    """Traces a process without stopping it, as long as the block runs. ptrace belongs to a thread:
    ours."""

    PTRACE_SEIZE, PTRACE_INTERRUPT, PTRACE_DETACH = 0x4206, 0x4207, 17

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._libc.ptrace.argtypes = [ctypes.c_long] * 4

    def __enter__(self) -> None:
        assert self._libc.ptrace(self.PTRACE_SEIZE, self._pid, 0, 0) == 0

    def __exit__(self, *_: object) -> None:
        self._libc.ptrace(self.PTRACE_INTERRUPT, self._pid, 0, 0)
        os.waitpid(self._pid, 0x40000000)  # __WALL
        assert self._libc.ptrace(self.PTRACE_DETACH, self._pid, 0, 0) == 0


@pytest.mark.needs("gcc", "attach")
def test_already_traced(start: Start) -> None:
    target = start("sleeper")
    with _Tracer(target.pid):
        record(target.pid).assert_refused(CANNOT_ATTACH, "already traced", str(os.getpid()))
    assert target.finish() == ["done"]


@pytest.mark.needs("setpriv")
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become someone else")
def test_process_of_another_user(adopt: Callable[[Target], Target]) -> None:
    command = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "cat"]
    target = adopt(Target(command, announces=False))
    wait_until(lambda: kernel.status(target.pid)["Uid"].startswith("65534"), "the other user")
    # Root without this one capability has no more rights over others' processes than anybody.
    powerless = ["setpriv", "--bounding-set=-sys_ptrace", "--inh-caps=-sys_ptrace"]
    result = cli.run("record", "-p", target.pid, "-o", "-", "-f", "folded", prefix=powerless)
    result.assert_refused(NO_PERMISSION, "nobody|65534|CAP_SYS_PTRACE", "hint: ")
    target.finish()


def test_flametap_itself() -> None:
    command = f'exec {sys.executable} -m flametap record -p "$$" -d 1 -o - -f folded'
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)
    result = cli.Result(done.returncode, done.stdout, done.stderr)
    result.assert_refused(CANNOT_ATTACH, "flametap itself")


@pytest.mark.nightly  # how far the attach is then depends on the moment
@pytest.mark.needs("gcc", "attach")
@pytest.mark.parametrize("delay_ms", [0, 30, 100, 250])
def test_target_that_exits_during_the_attach(start: Start, tmp_path: Path, delay_ms: int) -> None:
    target = start("sleeper")
    with cli.Running(str(tmp_path), "record", "-p", target.pid, "-o", tmp_path / "o.folded") as run:
        wait_until(lambda: kernel.status(target.pid)["TracerPid"] != "0", "the attach")
        time.sleep(delay_ms / 1000)
        target.close()
        result = run.result()
    assert "Traceback" not in result.stderr, result.stderr
    assert result.exit_code in (0, NO_SUCH_PROCESS, CANNOT_ATTACH, 6), result.stderr


@pytest.mark.needs("gcc")
@pytest.mark.parametrize("rate", ["0", "1000000000", *nightly("-1", "many")])
def test_rate_out_of_range(start: Start, rate: str) -> None:
    target = start("sleeper")
    result = cli.run("record", "-p", target.pid, f"--rate={rate}", "-o", "-", "-f", "folded")
    assert result.exit_code == USAGE, result.stderr
    assert "rate" in result.stderr
    assert "Traceback" not in result.stderr
    assert target.finish() == ["done"]


@pytest.fixture
def unwritable(tmp_path: Path) -> dict[str, Path]:
    """Output paths that cannot be written, also not by root."""
    (tmp_path / "a-file").write_text("")
    return {
        "no folder": tmp_path / "missing" / "out.folded",
        "a folder": tmp_path,
        "below a file": tmp_path / "a-file" / "out.folded",
        "no such file system": Path("/proc/out.folded"),
    }


@pytest.mark.needs("gcc")
@pytest.mark.parametrize(
    "case", ["no folder", "a folder", *nightly("below a file", "no such file system")]
)
def test_unwritable_output_is_found_before_the_attach(
    start: Start, unwritable: dict[str, Path], case: str
) -> None:
    target = start("sleeper")
    before = receipt.take(target.pid)
    result = cli.run("record", "-p", target.pid, "-d", 30, "-o", unwritable[case], "-f", "folded")
    result.assert_refused(OUTPUT, str(unwritable[case]))
    assert receipt.harm(before, receipt.take(target.pid), attaches=0) == []
    assert target.finish() == ["done"]


@pytest.mark.needs("gcc")
def test_output_whose_format_cannot_be_told(start: Start, tmp_path: Path) -> None:
    target = start("sleeper")
    result = cli.run("record", "-p", target.pid, "-d", 30, "-o", tmp_path / "out.xyz")
    result.assert_refused(USAGE, "folded", "speedscope")
    assert target.finish() == ["done"]


@pytest.mark.needs("gcc")
def test_port_in_use(start: Start) -> None:
    target = start("sleeper")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        result = cli.run("live", target.pid, "--port", port, "--no-open")
    result.assert_refused(OUTPUT, f"{port}", "in use", "--port")
    assert target.finish() == ["done"]


@pytest.mark.nightly  # how far it is then depends on the moment
@pytest.mark.needs("gcc", "attach")
@pytest.mark.parametrize("delay_ms", [0, 50, 100, 200, 300, 400, 600, 900])
def test_ctrl_c_at_any_moment(start: Start, tmp_path: Path, delay_ms: int) -> None:
    target = start("ratio")
    before = receipt.take(target.pid)
    with cli.Running(str(tmp_path), "record", "-p", target.pid, "-o", tmp_path / "o.folded") as run:
        wait_until(run.has_begun, "flametap to begin")
        time.sleep(delay_ms / 1000)
        run.interrupt()
        result = run.result()
    assert "Traceback" not in result.stderr, result.stderr
    # Nothing sampled yet (6), saved (0), or interrupted before anything was set up (130).
    assert result.exit_code in (0, 6, 130, -signal.SIGINT), result.stderr
    assert receipt.harm_after_settling(target.pid, before) == []
    target.finish()


@pytest.mark.nightly  # how far the first is then depends on the moment
@pytest.mark.needs("gcc", "attach")
def test_two_profilers_at_once(start: Start, tmp_path: Path) -> None:
    target = start("ratio")
    before = receipt.take(target.pid)
    with cli.Running(str(tmp_path), "record", "-p", target.pid, "-o", tmp_path / "o.folded") as run:
        wait_until(
            lambda: "frida" in Path(f"/proc/{target.pid}/maps").read_text(), "the attach", 20
        )
        time.sleep(0.5)
        second = record(target.pid)
        assert "Traceback" not in second.stderr, second.stderr
        assert second.exit_code in (0, CANNOT_ATTACH), second.stderr
        run.interrupt()
        run.result().assert_saved()
    assert receipt.harm_after_settling(target.pid, before, attaches=2) == []
    target.finish()


def test_no_command_after_the_dashes(tmp_path: Path) -> None:
    missing = tmp_path / "no-such-program"
    result = cli.run("record", "-o", tmp_path / "o.folded", "--", missing)
    assert result.exit_code == USAGE, result.stderr
    assert "no-such-program" in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.needs("static-glibc")
def test_command_that_frida_cannot_enter_is_refused_and_not_left_running(
    start: Start, tmp_path: Path
) -> None:
    program = shutil.copy(
        f"/proc/{start('sleeper', variant='static').pid}/exe", tmp_path / "static"
    )
    result = cli.run("record", "-o", tmp_path / "o.folded", "--inject", "frida", "--", program)
    result.assert_refused(CANNOT_ATTACH, "static")
