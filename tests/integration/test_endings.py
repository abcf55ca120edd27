"""A target that ends while it is recorded: what is said, what is saved, and the exit code."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

import cli
import kernel
from nightly import nightly
from running import Start, Target, wait_until

pytestmark = pytest.mark.needs("attach", "gcc")
PATIENCE_S = 60.0  # an attach waits for its turns where the machine is busy


def wait_until_sampled(target: Target, cpu_s: float = 0) -> None:
    """Wait until sampling has begun, and the target has used that much CPU time since."""
    wait_until(lambda: kernel.catches(target.pid, signal.SIGURG), "the agent", PATIENCE_S)
    enough_ns = kernel.cpu_with_ended_ns(target.pid) + cpu_s * 1e9
    wait_until(lambda: kernel.cpu_with_ended_ns(target.pid) >= enough_ns, "CPU time", PATIENCE_S)


def record_until_end(
    start: Start, folder: Path, how: str, *options: object
) -> tuple[cli.Result, Path]:
    """Record ``ends HOW``, which ends when told to, or is sent ``how`` if that is a signal."""
    number = getattr(signal, how, None)
    target = start("ends", "wait" if number else how, "0")
    output = folder / "out.folded"
    with cli.Running(str(folder), "record", "-p", target.pid, "-o", output, *options) as run:
        # So long that the sampler has had turns and has sent samples, also on a busy machine.
        wait_until_sampled(target, cpu_s=1.0)
        if number:
            target.signal(number)
        else:
            target.close_input()
        result = run.result(PATIENCE_S)
    target.close()
    return result, output


@pytest.mark.parametrize(
    ("how", "said", "exit_code"),
    [
        ("fault", "the target was killed by signal 11 (SIGSEGV)", 7),
        ("kill", "the target was killed by signal 9 (SIGKILL)", 0),
        ("return", "the target exited with code 3", 0),
        *nightly(("illegal", "the target was killed by signal 4 (SIGILL)", 7)),
        *nightly(("SIGTERM", "the target was killed by signal 15 (SIGTERM)", 0)),
    ],
)
def test_end_is_told_and_the_recording_saved(
    start: Start, tmp_path: Path, how: str, said: str, exit_code: int
) -> None:
    result, output = record_until_end(start, tmp_path, how)
    assert result.exit_code == exit_code, result.stderr
    assert f"{said}; the recording ends with it" in result.stderr
    assert "work_until" in output.read_text()
    error = f"flametap: {said} while flametap was attached"
    assert (error in result.stderr) == (exit_code == 7), result.stderr


@pytest.mark.nightly  # from outside nobody can tell when the attach to it is over
@pytest.mark.parametrize(("number", "exit_code"), [(signal.SIGSEGV, 7), (signal.SIGTERM, 6)])
def test_end_of_one_that_used_no_cpu(
    start: Start, tmp_path: Path, number: signal.Signals, exit_code: int
) -> None:
    target = start("parked", "long")
    output = tmp_path / "out.folded"
    options = ("--tid", 1, "-o", output)  # a thread that it has not
    with cli.Running(str(tmp_path), "record", "-p", target.pid, *options) as run:
        wait_until_sampled(target)
        target.signal(number)
        result = run.result(PATIENCE_S)
    target.close()
    assert result.exit_code == exit_code, result.stderr
    assert f"the target was killed by signal {number.value}" in result.stderr
    assert not output.exists()


def test_command_that_dies_has_its_own_exit_code(start: Start, tmp_path: Path) -> None:
    output = tmp_path / "out.folded"
    script = "x=0; while [ $x -lt 300000 ]; do x=$((x+1)); done; kill -s SEGV $$"
    result = cli.run("record", "-o", output, "--", "sh", "-c", script)
    assert result.exit_code == 128 + signal.SIGSEGV, result.stderr
    assert "the target was killed by signal 11 (SIGSEGV)" in result.stderr
    assert "flametap: " not in result.stderr
    assert output.read_text()
