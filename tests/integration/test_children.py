"""A program is many processes: what it starts is in the recording, and so are programs that replace
it."""

from __future__ import annotations

import contextlib
import os
import re
from collections import Counter
from pathlib import Path

import pytest

import cli
import receipt
from flametap.analysis.views import views_of
from flametap.capture.capture_options import CaptureOptions
from flametap.capture.live import Capture
from flametap.linux.proc_events import ProcEvents
from flametap.linux.task_stats import TaskStats
from flametap.model import Clock
from flametap.perf.events import PerfEvents
from flametap.recording.opened import open_recording
from flametap.recording.recording import Recording
from flametap.tree.selection import Selection
from recording import SYMBOLS_S
from running import Start, wait_until
from targetbuild import Builder

pytestmark = pytest.mark.needs("attach")

MS, CHILDREN = 1000, 3


def recorded(folder: Path, *command: object, code: int) -> Recording:
    """Record a command as a user does."""
    out = folder / "out.flametap"
    result = cli.run("record", "-r", 250, "-o", out, "--", *command)
    assert "Traceback" not in result.stderr, result.stderr
    assert result.exit_code == code, result.stderr
    return open_recording(str(out))


def kernel_tells() -> bool:
    """Whether the kernel tells us of processes that begin and end."""
    try:
        for each in (ProcEvents, TaskStats):
            each().close()
    except OSError:
        return False
    return True


def cpu_by_program(recording: Recording) -> Counter[str]:
    """The CPU time of each program, nanoseconds."""
    processes = recording.profile.processes
    found: Counter[str] = Counter()
    for thread in recording.profile.thread_infos():
        found[processes[thread.process].program] += thread.cpu_ns
    return found


def test_children_are_recorded_with_their_time(builder: Builder, tmp_path: Path) -> None:
    recording = recorded(tmp_path, builder.program("family"), CHILDREN, MS, "attached", code=7)
    own = {
        each.number: each
        for each in recording.profile.processes.values()
        if each.pid and each.number
    }
    assert len(own) == CHILDREN
    assert {each.parent for each in own.values()} == {0}
    assert {each.reason for each in own.values()} == {"the target exited"}
    total_ns = recording.profile.total_ns(Clock.CPU)
    assert total_ns == pytest.approx((CHILDREN + 1) * MS * 1e6, rel=0.15)
    names = {function.name for function in recording.functions}
    assert {"child_work", "parent_work"} <= names


def test_program_that_replaces_another_is_recorded(builder: Builder, tmp_path: Path) -> None:
    program = builder.program("family")
    recording = recorded(tmp_path, "sh", "-c", f"exec {program} 0 {MS}", code=7)
    first, second = list(recording.profile.processes.values())[:2]
    assert (first.program, second.program) == ("sh", "family")
    assert first.pid == second.pid
    assert second.parent == first.number
    assert "exec" in first.reason
    assert cpu_by_program(recording)["family"] == pytest.approx(MS * 1e6, rel=0.2)


def test_what_is_over_too_soon_is_counted_by_name(tmp_path: Path) -> None:
    if not kernel_tells():
        pytest.skip("the kernel does not tell of processes here")
    script = "for i in 1 2 3 4 5 6 7 8 9 10; do /bin/true; done; exit 3"
    recording = recorded(tmp_path, "sh", "-c", script, code=3)
    processes = list(recording.profile.processes.values())
    names = [thread.name for thread in recording.profile.thread_infos()]
    n_counted = sum(int(name.split("× ")[1]) for name in names if name.startswith("true ×"))
    n_recorded = sum(each.program == "true" for each in processes)
    assert n_counted + n_recorded == 10, (names, processes)


def kernel_samples() -> bool:
    """Whether the kernel samples for us."""
    try:
        PerfEvents(os.getpid(), 10**7).close()
    except OSError:
        return False
    return True


@pytest.mark.needs("gcc")
def test_what_is_over_too_soon_is_sampled_by_the_kernel(builder: Builder, tmp_path: Path) -> None:
    if not kernel_samples():
        pytest.skip("the kernel does not let us open events here")
    script = f"for i in 1 2 3 4 5 6 7 8 9 10; do {builder.program('family')} 0 40; done; exit 3"
    recording = recorded(tmp_path, "sh", "-c", script, code=3)
    tree = views_of(recording).tree(Selection(Clock.CPU))
    total_ns = {function.name: 0 for function in tree.functions}
    for function, weight in zip(tree.function, tree.total_ns, strict=True):
        if function >= 0:
            total_ns[tree.functions[function].name] += int(weight)
    assert total_ns["parent_work"] == pytest.approx(10 * 40e6, rel=0.25)
    assert total_ns["main"] >= total_ns["parent_work"]


def sees_all_processes() -> bool:
    with contextlib.suppress(OSError):
        PerfEvents(None, 10**7).close()
        return True
    return False


def test_what_ends_within_a_period_has_its_share(builder: Builder, tmp_path: Path) -> None:
    """The sum is the kernel's for the tree, though it tells too little of each process."""
    if not (sees_all_processes() and kernel_tells()):
        pytest.skip("the kernel does not let us sample all processes here")
    times = tmp_path / "times"
    script = f"for i in $(seq 300); do {builder.program('family')} 0 1; done; times > {times}"
    recording = recorded(tmp_path, "sh", "-c", f"{script}; exit 0", code=0)
    children = times.read_text().splitlines()[1]  # POSIX: times
    used_s = sum(
        60 * int(minutes) + float(seconds)
        for minutes, seconds in re.findall(r"(\d+)m([\d.]+)s", children)
    )
    found_ns = cpu_by_program(recording)
    assert found_ns["[short-lived]"] / 1e9 == pytest.approx(used_s, rel=0.25)
    native = recording.profile.verdicts().native
    assert native["COMPLETE"] > 0.8 * sum(native.values())


def test_without_children_only_the_command_is_recorded(builder: Builder, tmp_path: Path) -> None:
    out = tmp_path / "out.flametap"
    command = ("--", builder.program("family"), 1, MS // 2)
    result = cli.run("record", "--no-children", "-r", 250, "-o", out, *command)
    assert result.exit_code == 7, result.stderr
    recording = open_recording(str(out))
    assert len(recording.profile.processes) == 1
    assert recording.profile.total_ns(Clock.CPU) == pytest.approx(MS // 2 * 1e6, rel=0.2)


def test_children_of_a_running_process_are_left_as_they_were(start: Start) -> None:
    target = start("family", "2")
    pids = [target.pid, *target.facts.values()]
    before = {pid: receipt.take_at_rest(pid) for pid in pids}
    capture = Capture(target.pid, CaptureOptions(rate_hz=250, budget_ppm=0))
    capture.follow()
    try:
        capture.start()
        wait_until(lambda: len(capture.profile.processes) == 3, "all three")
        wait_until(lambda: capture.profile.samples >= 3, "a look at each")
        capture.stop()
        capture.finish_symbols(SYMBOLS_S)
    finally:
        capture.close()
    assert sorted(each.pid for each in capture.profile.processes.values()) == sorted(pids)
    for pid in pids:
        assert receipt.harm_after_settling(pid, before[pid], timeout_s=60) == []
    target.finish()


def test_processes_that_are_named_are_recorded_together(start: Start, tmp_path: Path) -> None:
    """With their own pids in the files; what cannot be entered is told and left out."""
    targets = [start("ratio"), start("ratio")]
    before = [receipt.take_at_rest(each.pid) for each in targets]
    out = tmp_path / "out.flametap"
    pids = [each.pid for each in targets]
    result = cli.run("record", *pids, 2**22 + 1, "-d", 1, "-r", 250, "-o", out)
    result.assert_saved()
    assert f"there is no process {2**22 + 1}: not recorded" in result.stderr
    made = open_recording(str(out))
    assert sorted(each.pid for each in made.profile.processes.values()) == sorted(pids)
    assert {each.parent for each in made.profile.processes.values()} == {-1}
    used_ns = Counter[int]()
    for thread in made.profile.thread_infos():
        used_ns[thread.process] += thread.cpu_ns
    assert len(used_ns) == 2
    assert min(used_ns.values()) > 0.1 * max(used_ns.values())
    for target, each in zip(targets, before, strict=True):
        assert receipt.harm_after_settling(target.pid, each, timeout_s=60) == []
        target.finish()


def test_failing_command_keeps_its_exit_code(tmp_path: Path) -> None:
    recorded(tmp_path, "sh", "-c", "(exit 4) & wait; sleep 0.3; exit 9", code=9)
