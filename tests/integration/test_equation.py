"""CPU time + waiting for a CPU + asleep, by cause = the time that passed: for each thread and in
sum, on the live page and in every export, of programs that spend their time in different ways.

What is added up is checked against others' books: the kernel's for CPU time and for waiting, our
clock for the time that passed. Asleep is the rest, of both.
"""

from __future__ import annotations

import itertools
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from flametap import export
from flametap.capture.live import Capture
from flametap.model import Clock, ThreadInfo
from ledger import QUEUED, READERS, UNATTRIBUTED, Ledger, Page, Reader, of_export
from recording import SYMBOLS_S, capturing, doubts
from running import Start, Target, wait_until
from schedule import Bounds, ScheduleLog
from targetbuild import SOURCES, Builder
from workloads import LOADED

pytestmark = pytest.mark.needs("attach", "gcc")

Adopt = Callable[[Target], Target]

SECONDS = 0.8
RATE_HZ = 250.0
ONE_CPU = "0"
MARGIN = 0.03  # the machine may be busy
LATE_NS = 100_000_000  # the last look at a thread, then
HEAVIEST = 2  # threads that are looked at by themselves while it is recorded
EMPTY = 1_000_000  # a thread that comes and goes between two looks has no time

OURS = {
    "ratio": ("ratio",),
    "pulse": ("pulse", "2"),
    "bursts": ("bursts",),
    "turns": ("turns",),
    "waits": ("waits", "quiet"),
    "brief": ("brief", "200"),
    "convoy": ("truth", "convoy", "CPU"),
    "many": ("truth", "many", "CPU"),
}
THEIRS = ("demo", "python", "node", "java", "redis")


# One that computes, one that waits, one whose threads wait for a CPU, one whose threads come and
# go, and a runtime.
TELLING = ("ratio", "waits", "turns", "brief", "python")


def _program(name: str) -> object:
    marks = [pytest.mark.needs(name)] if name in ("node", "java", "redis") else []
    return pytest.param(name, marks=[*marks, *[pytest.mark.nightly] * (name not in TELLING)])


@contextmanager
def _running(
    name: str, start: Start, adopt: Adopt, builder: Builder, folder: Path
) -> Iterator[int]:
    with ExitStack() as programs:
        if name in OURS:
            yield start(*(ONE_CPU if part == "CPU" else part for part in OURS[name])).pid
        elif name == "demo":
            target = adopt(Target([builder.program("demo")], announces=False))
            wait_until(lambda: len(list(Path(f"/proc/{target.pid}/task").iterdir())) == 6, "demo")
            yield target.pid
        elif name == "redis":
            yield programs.enter_context(LOADED["redis"].start(folder))
        else:
            command: dict[str, list[str | Path]] = {
                "python": [sys.executable, SOURCES / "busy.py"],
                "node": ["node", SOURCES / "busy.js"],
                "java": ["java", "-Xshare:auto", "-cp", "", "Busy"],
            }
            if name == "java":
                command["java"][3] = builder.java_class("Busy")
            yield adopt(Target(command[name])).pid


@dataclass(frozen=True)
class Recorded:
    """A recording that is over, and when it was what, CLOCK_MONOTONIC."""

    capture: Capture
    log: ScheduleLog
    called_ns: int  # before the attach
    started_ns: int  # all threads that were there have been seen
    end: Bounds  # the last look at each thread

    @property
    def slack_ns(self) -> int:
        """A small part of the recording."""
        return round(MARGIN * self.capture.profile.duration_ns)


def _record(pid: int, meanwhile: Callable[[Page], None]) -> Recorded:
    called_ns = time.monotonic_ns()
    with ExitStack() as recording:
        captures: list[Capture] = []
        log = recording.enter_context(
            ScheduleLog(pid, lambda: captures[0].profile.now_ns if captures else 0)
        )
        capture = recording.enter_context(capturing(pid, rate_hz=RATE_HZ))
        captures.append(capture)
        started_ns = time.monotonic_ns()
        assert not capture.wait(SECONDS), f"the target has gone: {capture.status().reason}"
        meanwhile(Page(capture))
        capture.stop()
        capture.finish_symbols(SYMBOLS_S)
    end_ns = capture.profile.now_ns
    assert called_ns <= capture.profile.start_ns <= end_ns <= time.monotonic_ns()
    return Recorded(capture, log, called_ns, started_ns, Bounds(end_ns, log.reached_ns(end_ns)))


# ---- what has to be equal


def _check_page(page: Page) -> None:
    """All threads together, and the heaviest by themselves, by all clocks."""
    moment = page.moment()
    _check_moment(moment.ledger(), [moment.total(clock) for clock in Clock], moment.lists_all)
    for row in moment.threads:
        assert row["cpu_ns"] + row["off_cpu_ns"] == row["wall_ns"], row
    for row in sorted(moment.threads, key=lambda row: -int(row["cpu_ns"]))[:HEAVIEST]:
        alone = page.moment(row["thread_id"])
        totals = [alone.total(clock) for clock in Clock]
        (now,) = (each for each in alone.threads if each["thread_id"] == row["thread_id"])
        assert totals == [now["cpu_ns"], now["wall_ns"], now["off_cpu_ns"]], now
        _check_moment(alone.ledger(), totals, alone.lists_all)


def _check_ranges(page: Page, duration_ms: int) -> None:
    """Ranges of a recording that is over: each by itself, and thirds that make up the whole."""
    thirds = [round(duration_ms * part / 3) for part in range(3)] + [duration_ms + 1]
    ranges = [f"{begin}-{end}" for begin, end in itertools.pairwise(thirds)]
    sums: Counter[str] = Counter()
    for range_ in (*ranges, "last777", f"{duration_ms // 2}-{duration_ms // 2 + 1}"):
        names = [f"{clock.value.replace('-', '_')}_ns" for clock in Clock]
        view = [
            page.ask("view", clock=clock.value, range=range_, width=1000)["total_ns"]
            for clock in Clock
        ]
        rows = page.threads(range=range_)
        for row in rows:
            assert row["cpu_ns"] + row["off_cpu_ns"] == row["wall_ns"], (range_, row)
        assert view[0] + view[2] == view[1], (range_, view)
        if len(rows) < page.MAX_ROWS:
            assert view == [sum(row[name] for row in rows) for name in names], range_
        if range_ in ranges:
            sums.update(dict(zip((clock.value for clock in Clock), view, strict=True)))
    n_threads = page.ask("threads")["count"]
    for clock in Clock:
        expected, total = page.ask("view", clock=clock.value)["total_ns"], sums[clock.value]
        # An interval that is cut is shared out in whole nanoseconds.
        assert abs(total - expected) <= 10 * len(ranges) * n_threads, (clock, total, expected)


def _check_all_is_inside(capture: Capture) -> None:
    """No interval begins before the recording or ends after it."""
    profile = capture.profile
    for clock in Clock:
        inside = profile.leaf_weights(clock, None, profile.start_ns, profile.now_ns)
        assert inside.total == profile.total_ns(clock), clock


def _check_moment(functions: Ledger, totals: list[int], lists_all: bool) -> None:
    cpu_ns, wall_ns, off_ns = totals
    assert cpu_ns + off_ns == wall_ns
    if lists_all:
        assert functions.differences(slack_ns=0) == []


def _check_export(ledger: Ledger, threads: dict[str, list[ThreadInfo]], reader: Reader) -> None:
    rounding_ns = reader.rounding_ns
    assert ledger.differences(slack_ns=3 * rounding_ns) == []
    for name, infos in threads.items():
        expected = {
            Clock.CPU: sum(info.cpu_ns for info in infos),
            Clock.WALL: sum(info.wall_ns for info in infos),
            Clock.OFF_CPU: sum(info.off_cpu_ns for info in infos),
        }
        for clock, weight in expected.items():
            found = ledger.total(clock, reader.spelled(name))
            assert abs(found - weight) <= rounding_ns, f"{name}, {clock.value}: {found} {weight}"


def _check_others_books(recorded: Recorded, exact: Ledger) -> None:
    """Against the kernel, and the time that has passed."""
    capture = recorded.capture
    counters = capture.status().counters
    slack_ns, gap_ns = recorded.slack_ns, counters["gap_ns"]
    cpu, queued, used, compared = Bounds(0, 0), Bounds(0, 0), [0, 0], 0
    for info in capture.profile.thread_infos():
        thread = capture.profile.threads[info.thread_id]
        if not info.tid:  # all threads that nobody has met: only their CPU time is known
            assert info.off_cpu_ns == 0, info
            continue
        assert recorded.called_ns <= thread.first_seen_ns <= recorded.end.most_ns, thread
        passed = Bounds(
            recorded.end.least_ns - thread.first_seen_ns - gap_ns,
            recorded.end.most_ns - thread.first_seen_ns,
        )
        told = f"{info}, {passed}, gap {gap_ns}, {doubts(capture)}"
        if info.exited or thread.first_seen_ns > recorded.started_ns:
            # It was there for a part; what a new one did before it was first seen counts, too.
            assert info.wall_ns <= passed.most_ns + info.cpu_ns + slack_ns, told
            continue
        assert passed.hold(info.wall_ns, slack_ns + LATE_NS), told
        books = recorded.log.used(
            info.tid, Bounds(thread.first_seen_ns, recorded.started_ns), recorded.end
        )
        if books is None:
            continue
        compared += 1
        causes = exact.causes(f"{info.name} ({info.tid})")
        waited_ns = causes[QUEUED]
        told += f", waited for a CPU {waited_ns}, the kernel: {books}"
        assert books[0].hold(info.cpu_ns, slack_ns), told
        # The kernel books a wait when it is over: one that lasts at the end has no cause yet.
        booked = Bounds(books[1].least_ns - causes[UNATTRIBUTED], books[1].most_ns)
        assert booked.hold(waited_ns, slack_ns + gap_ns), told
        cpu, queued = cpu + books[0], queued + booked
        used = [used[0] + info.cpu_ns, used[1] + waited_ns]
    assert compared > 0, "the kernel's log covers no thread"
    assert cpu.hold(used[0], slack_ns), f"{used} {cpu} {doubts(capture)}"
    assert queued.hold(used[1], len(capture.profile.thread_infos()) * (slack_ns // 2 + gap_ns)), (
        used,
        queued,
    )


def test_there_is_a_reader_for_every_format() -> None:
    # A picture leaves out what is too narrow; these others hold one thread, and the heaviest.
    assert READERS.keys() == export.FORMATS.keys() - {"svg", "cpuprofile", "markdown"}


@pytest.mark.parametrize("name", [_program(name) for name in (*OURS, *THEIRS)])
def test_cpu_and_waiting_and_sleep_make_up_the_time_that_passed(
    start: Start, adopt: Adopt, builder: Builder, tmp_path: Path, name: str
) -> None:
    with _running(name, start, adopt, builder, tmp_path) as pid:
        recorded = _record(pid, _check_page)
    capture = recorded.capture
    _check_page(Page(capture))
    _check_all_is_inside(capture)
    _check_ranges(Page(capture), round(capture.profile.duration_ns / 1e6))
    threads: dict[str, list[ThreadInfo]] = {}
    for info in capture.profile.thread_infos():
        threads.setdefault(f"{info.name} ({info.tid})", []).append(info)
    ledgers = {name: of_export(capture, name, tmp_path) for name in READERS}
    for format_name, ledger in ledgers.items():
        _check_export(ledger, threads, READERS[format_name])
    _check_others_books(recorded, ledgers["speedscope"])
