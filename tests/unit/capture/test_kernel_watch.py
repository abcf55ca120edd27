"""The kernel's figures of the threads that are recorded."""

from __future__ import annotations

from pathlib import Path

import pytest

import wire
from flametap.capture import kernel_watch
from flametap.capture.kernel_watch import KernelWatch
from flametap.recording.names.table import SymbolTable
from flametap.recording.profile.store import Profile
from flametap.wire import abi
from profiles import apply

PID, WORKER, AGENT = 70, 71, 99
MILLION = 1_000_000


class Proc:
    """A /proc with one process."""

    def __init__(self, root: Path) -> None:
        self.root = root / str(PID)
        self.path = str(root)
        (self.root / "task").mkdir(parents=True)
        self.status()

    def status(self, own_pid: int = PID) -> None:
        ids = "0\t0\t0\t0"
        text = f"Name:\tx\nState:\tS\nTgid:\t70\nPid:\t70\nPPid:\t1\nTracerPid:\t0\nUid:\t{ids}\n"
        (self.root / "status").write_text(f"{text}Gid:\t{ids}\nNSpid:\t70\t{own_pid}\n")

    def thread(self, tid: int, user_ticks: int, system_ticks: int = 0, faults: int = 0) -> None:
        task = self.root / "task" / str(tid)
        task.mkdir(exist_ok=True)
        numbers = ["S", *["0"] * 6, faults, 0, 0, 0, user_ticks, system_ticks, *["0"] * 30]
        (task / "stat").write_text(f"{tid} (a ) b) {' '.join(map(str, numbers))}\n")
        cpu_ns = 10 * MILLION * (user_ticks + system_ticks) + 1
        (task / "schedstat").write_text(f"{cpu_ns} 5 7\n")


@pytest.fixture
def proc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Proc:
    monkeypatch.setattr(kernel_watch, "LOOK_INTERVAL_S", 0.0)
    found = Proc(tmp_path)
    found.thread(PID, 100, 50, 10)
    found.thread(AGENT, 0)
    return found


def ran(profile: Profile, thread_id: int, tid: int, cpu_ms: int, *, exited: bool = False) -> None:
    """One more interval with a stack."""
    flags = abi.THREAD_EXITED if exited else 0
    rows = [wire.interval(thread_id, 1, 1000, cpu_ms * MILLION, cpu_ms * MILLION)]
    apply(
        profile,
        9_000,
        modules=[wire.module(1, "/opt/prog")],
        threads=[wire.thread(thread_id, tid, "t", flags=flags)],
        traces=[wire.trace(1, [wire.frame(1, 0x100)])],
        intervals=rows if cpu_ms else [],
    )


def test_difference_of_two_readings_of_threads_in_the_profile(proc: Proc) -> None:
    watch, profile = KernelWatch(PID, proc=proc.path), Profile()
    watch.begin()
    proc.thread(PID, 130, 60, 17)
    proc.thread(AGENT, 500)
    proc.thread(WORKER, 40)  # began later: all of its time counts
    ran(profile, 1, PID, 390)
    ran(profile, 2, WORKER, 410)
    watch.end(profile)
    watch.look(profile)  # the pump's, just behind the end
    found = watch.compare(profile, SymbolTable(profile.locate))
    assert found is not None
    assert (found.threads, found.page_faults, found.samples) == (2, 7, 2)
    assert (found.kernel_user_ns, found.kernel_system_ns) == (700 * MILLION, 100 * MILLION)
    assert (found.seen_ns, found.seen_system_ns) == (800 * MILLION, 0)
    assert (found.kernel_total_ns, found.seen_total_ns) == (800 * MILLION + 1, 800 * MILLION)
    assert found.kernel_duration_ns > 0


@pytest.mark.parametrize(("told_ticks", "threads"), [(40, 1), (30, 0)])
def test_thread_that_ended_counts_if_it_was_read_late_enough(
    proc: Proc, told_ticks: int, threads: int
) -> None:
    watch, profile = KernelWatch(PID, proc=proc.path), Profile()
    watch.begin()
    proc.thread(WORKER, told_ticks)
    ran(profile, 2, WORKER, 100)
    watch.look(profile)
    ran(profile, 2, WORKER, 310, exited=True)
    watch.end(profile)
    found = watch.compare(profile, SymbolTable(profile.locate))
    assert found is not None
    assert (found.threads, found.kernel_total_ns) == (threads, 0)


def test_other_numbers_pauses_and_targets_that_are_gone_are_not_compared(proc: Proc) -> None:
    profile = Profile()
    ran(profile, 1, PID, 100)
    table = SymbolTable(profile.locate)
    paused = KernelWatch(PID, proc=proc.path)
    paused.begin()
    paused.give_up()
    proc.status(own_pid=1)
    inside = KernelWatch(PID, proc=proc.path)
    inside.begin()
    gone = KernelWatch(12, proc=proc.path)
    gone.begin()
    for watch in (paused, inside, gone):
        watch.look(profile)
        watch.end(profile)
        assert watch.compare(profile, table) is None
