"""The scheduler's own books of a process: how long each thread had a CPU, and waited for one."""

from __future__ import annotations

import contextlib
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from kernel import Log, task_ids

# Of a thread on another CPU the kernel adds up at its ticks: 100 to 1 000 a second.
TICK_NS = 10_000_000


@dataclass(frozen=True)
class Bounds:
    """The least and the most that can be true, nanoseconds."""

    least_ns: int
    most_ns: int

    def __add__(self, other: Bounds) -> Bounds:
        return Bounds(self.least_ns + other.least_ns, self.most_ns + other.most_ns)

    def hold(self, found_ns: int, slack_ns: int) -> bool:
        """True for what lies between them, give or take some."""
        return self.least_ns - slack_ns <= found_ns <= self.most_ns + slack_ns


@dataclass(frozen=True)
class _Reading:
    begin_ns: int
    cpu_ns: int
    waited_ns: int
    end_ns: int


class ScheduleLog(Log):
    """Read the schedstat of all threads (proc(5)), so that afterwards what they did between two
    moments of CLOCK_MONOTONIC can be told.

    Args:
        pid: whose threads.
        clock: something that grows; noted with each reading.
    """

    def __init__(self, pid: int, clock: Callable[[], int]) -> None:
        super().__init__()
        self._pid = pid
        self._clock = clock
        self._clock_log: list[tuple[int, int]] = []
        self._log: dict[int, list[_Reading]] = defaultdict(list)

    def _read(self) -> None:
        self._clock_log.append((self._clock(), time.monotonic_ns()))
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it has ended
            for tid in task_ids(self._pid):
                begin_ns = time.monotonic_ns()
                with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # the thread has
                    text = Path(f"/proc/{self._pid}/task/{tid}/schedstat").read_text()
                    cpu_ns, waited_ns = map(int, text.split()[:2])
                    reading = _Reading(begin_ns, cpu_ns, waited_ns, time.monotonic_ns())
                    self._log[tid].append(reading)

    def reached_ns(self, value: int) -> int:
        """When the clock given was first seen to show ``value`` or more.

        Raises:
            AssertionError: never.
        """
        for shown, when_ns in self._clock_log:
            if shown >= value:
                return when_ns
        raise AssertionError(f"the clock never reached {value}: {self._clock_log[-1:]}")

    def used(self, tid: int, start: Bounds, end: Bounds) -> tuple[Bounds, Bounds] | None:
        """CPU time of a thread, and what it waited for a CPU, from one moment to another.

        A wait is added to the kernel's sum when it is over. One that lasted at the start may have
        begun before: it counts for the most, not for the least.

        Args:
            tid: the thread.
            start: the first moment is somewhere in here.
            end: the second one is.

        Returns:
            None when the log does not cover this thread from start to end.
        """
        log = self._log[tid]
        before = [each for each in log if each.end_ns <= start.least_ns]
        begun = [each for each in log if each.begin_ns >= start.most_ns]
        inside = [each for each in log if each.end_ns <= end.least_ns]
        after = [each for each in log if each.begin_ns >= end.most_ns]
        if not (before and begun and inside and after):
            return None
        has_run = [each for each in begun if each.cpu_ns > begun[0].cpu_ns]
        since_ns = has_run[0].waited_ns if has_run else inside[-1].waited_ns
        cpu_least_ns = inside[-1].cpu_ns - begun[0].cpu_ns - TICK_NS
        return (
            Bounds(max(cpu_least_ns, 0), after[0].cpu_ns - before[-1].cpu_ns + TICK_NS),
            Bounds(
                max(inside[-1].waited_ns - since_ns, 0), after[0].waited_ns - before[-1].waited_ns
            ),
        )
