"""Targets that stop, are frozen, or end while we are with them: we end soon, and they go on as if
nothing had been."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import cli
import kernel
import receipt
from flametap.inject import server
from nightly import nightly
from running import Start, Target, wait_until

pytestmark = pytest.mark.needs("attach", "gcc")

# Calls that the kernel itself ends when a process is stopped or frozen (signal(7)).
REPORT = r"\w+ returns=\d+ eintr=\d+"
END_S = 40.0
ATTEMPTS = 5  # at a moment


def is_attached_to(pid: int) -> bool:
    """True once the agent is in the process; sampling begins later."""
    return "flametap-ring" in Path(f"/proc/{pid}/maps").read_text()


def recording(target: Target, folder: Path, duration_s: float = 1.5) -> cli.Running:
    out = folder / "out.folded"
    arguments = ("record", "-p", target.pid, "-d", duration_s, "--clock", "wall", "-o", out)
    return cli.Running(str(folder), *arguments)


def wait_until_traced(pid: int) -> None:
    status = Path(f"/proc/{pid}/status")
    wait_until(lambda: "TracerPid:\t0\n" not in status.read_text(), "the attach")


def assert_goes_on(target: Target, before: receipt.Receipt) -> None:
    try:
        found = receipt.harm_after_settling(target.pid, before, timeout_s=60, was_killed=True)
    except ProcessLookupError:
        found = [f"it ended with {target.exit_code}"]
    assert found == []
    for line in target.finish():
        assert re.fullmatch(REPORT, line), line


# Where control groups are → the switch, on, off. Version 2, also beside version 1; version 1.
HIERARCHIES = {
    "": ("cgroup.freeze", "1", "0"),
    "unified": ("cgroup.freeze", "1", "0"),
    "freezer": ("freezer.state", "FROZEN", "THAWED"),
}


@pytest.fixture(params=["any", *nightly(*HIERARCHIES)])
def frozen_group(request: pytest.FixtureRequest) -> Iterator[tuple[Path, str, str, str]]:
    """(folder, its switch, on, off) of a new control group that can be frozen."""
    for hierarchy in HIERARCHIES if request.param == "any" else [request.param]:
        folder = Path("/sys/fs/cgroup", hierarchy, f"flametap-freeze-{os.getpid()}")
        switch, on, off = HIERARCHIES[hierarchy]
        with contextlib.suppress(OSError):
            folder.mkdir()
            if (folder / switch).exists():
                break
            folder.rmdir()
    else:
        pytest.skip("no control group that can be frozen")
    yield folder, switch, on, off
    # The target ends after this fixture.
    (folder / switch).write_text(off)
    for pid in (folder / "cgroup.procs").read_text().split():
        (folder.parent / "cgroup.procs").write_text(pid)
    wait_until(lambda: not (folder / "cgroup.procs").read_text(), "the group to empty")
    folder.rmdir()


def test_frozen_target_is_refused_and_frozen_amid_a_recording_it_goes_on(
    start: Start,
    tmp_path: Path,
    frozen_group: tuple[Path, str, str, str],
) -> None:
    folder, switch, on, off = frozen_group
    target = start("parked", "short")
    before = receipt.take(target.pid)
    (folder / "cgroup.procs").write_text(str(target.pid))
    (folder / switch).write_text(on)
    result = cli.run("record", "-p", target.pid, "-o", os.devnull, "-f", "folded")
    result.assert_refused(5, "frozen", "thaw")
    (folder / switch).write_text(off)
    with recording(target, tmp_path) as run:
        wait_until(lambda: is_attached_to(target.pid), "the recording")
        (folder / switch).write_text(on)
        assert run.result(END_S).exit_code in (0, 5, 6), run.output
    (folder / switch).write_text(off)
    assert_goes_on(target, before)
    target.close()


def test_target_stopped_amid_a_recording_goes_on(start: Start, tmp_path: Path) -> None:
    target = start("parked", "short")
    before = receipt.take(target.pid)
    with recording(target, tmp_path) as run:
        wait_until(lambda: is_attached_to(target.pid), "the recording")
        os.kill(target.pid, signal.SIGSTOP)
        assert run.result(END_S).exit_code in (0, 5, 6), run.output
    os.kill(target.pid, signal.SIGCONT)
    assert_goes_on(target, before)


@pytest.mark.nightly  # how far the attach is then depends on the moment
@pytest.mark.parametrize("delay_s", [0.0, 0.02, 0.05])
def test_target_stopped_amid_an_attach_goes_on(
    start: Start, tmp_path: Path, delay_s: float
) -> None:
    target = start("parked", "short")
    before = receipt.take(target.pid)
    with recording(target, tmp_path, 0.5) as run:
        wait_until_traced(target.pid)
        time.sleep(delay_s)
        os.kill(target.pid, signal.SIGSTOP)
        result = run.result(END_S)
    # 6: it had just begun, and nothing was sampled yet.
    assert result.exit_code in (0, 5, 6), result.stderr
    os.kill(target.pid, signal.SIGCONT)
    assert_goes_on(target, before)


# How it ends → the signal, and what its parent sees.
ENDS = {"exits": (0, 0), "is killed": (signal.SIGKILL, -9), "aborts": (signal.SIGABRT, -6)}


@pytest.mark.parametrize("how", ENDS)
@pytest.mark.parametrize("delay_s", [0.0, *nightly(0.03, 0.06, 0.1)])
def test_target_that_ends_amid_an_attach(
    start: Start, tmp_path: Path, how: str, delay_s: float
) -> None:
    number, expected = ENDS[how]
    was_amid = False
    for _ in range(1 if delay_s else ATTEMPTS):
        target = start("ratio")
        with recording(target, tmp_path, 0.5) as run:
            wait_until_traced(target.pid)
            time.sleep(delay_s)
            was_amid = not is_attached_to(target.pid)
            if number:
                os.kill(target.pid, number)
                wait_until(lambda: not target.alive, "its end", 15)  # noqa: B023
            else:
                target.finish()
            result = run.result(END_S)
        assert "Traceback" not in result.stderr, result.stderr
        assert result.exit_code in (0, 3, 5, 6, 7), result.stderr
        assert target.exit_code == expected
        if was_amid:
            break
    assert was_amid or delay_s, f"{ATTEMPTS} attaches were over before the target could end"


def test_second_recording_of_the_same_process_is_refused(start: Start, tmp_path: Path) -> None:
    target = start("parked", "short")
    before = receipt.take(target.pid)
    with recording(target, tmp_path, 600) as run:  # until it is interrupted
        wait_until(lambda: kernel.catches(target.pid, signal.SIGURG), "sampling to begin")
        second = cli.run("record", "-p", target.pid, "-d", 1, "-o", os.devnull, "-f", "folded")
        second.assert_refused(5, rf"already recorded.*process {run.process.pid}\b")
        # What records is not recorded, though it has the ring in its memory, too.
        host = ("record", "-p", run.process.pid, "-d", 0.5, "--clock", "wall", "-o", os.devnull)
        cli.run(*host, "-f", "folded").assert_saved()
        run.interrupt()
        run.result(END_S).assert_saved()
    assert_goes_on(target, before)


@pytest.mark.nightly
def test_of_two_recordings_begun_at_once_one_is_refused(start: Start, tmp_path: Path) -> None:
    target = start("ratio")
    before = receipt.take(target.pid)
    with recording(target, tmp_path, 3) as one, recording(target, tmp_path, 3) as other:
        results = [one.result(END_S), other.result(END_S)]
    assert sorted(result.exit_code for result in results) == [0, 5], results
    assert receipt.harm_after_settling(target.pid, before, timeout_s=60) == []
    target.finish()


def injectors_of(pid: int) -> list[int]:
    """The processes that attach for a profiler."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [
        int(child)
        for child in children
        if Path(f"/proc/{child}/comm").read_text().strip() == server.NAME
    ]


def test_third_ctrl_c_waits_for_nobody(start: Start, tmp_path: Path) -> None:
    target = start("parked", "short")
    before = receipt.take(target.pid)
    with recording(target, tmp_path, duration_s=60) as run:
        wait_until(lambda: is_attached_to(target.pid), "the agent in the target")
        # A list of children may miss some while others end (proc(5)).
        wait_until(lambda: injectors_of(run.process.pid), "the process that attaches")
        (injector,) = injectors_of(run.process.pid)
        os.kill(injector, signal.SIGSTOP)
        try:

            def has_left() -> bool:
                if run.process.poll() is None:
                    run.interrupt()
                return run.process.poll() is not None

            wait_until(has_left, "the end after three signals", 20)
        finally:
            os.kill(injector, signal.SIGCONT)
        result = run.result()
        assert (result.exit_code, result.stdout) == (130, ""), result.stderr
        assert "ended at once" in result.stderr
    assert_goes_on(target, before)
