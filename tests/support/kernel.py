"""What the kernel itself says about a target: the oracle for CPU time, signals and context
switches."""

from __future__ import annotations

import contextlib
import threading
import time
from collections import defaultdict
from pathlib import Path
from typing import TypeVar

LogT = TypeVar("LogT", bound="Log")


def task_ids(pid: int) -> list[int]:
    """The thread ids of ``pid``, in the kernel's order."""
    return [int(entry.name) for entry in Path(f"/proc/{pid}/task").iterdir()]


def children(pid: int) -> set[int]:
    """What a process has started, in any of its threads; none when it has gone."""
    found = set()
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        for tid in task_ids(pid):
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # a thread that ends
                text = Path(f"/proc/{pid}/task/{tid}/children").read_text()
                found |= {int(child) for child in text.split()}
    return found


def status(pid: int, tid: int | None = None) -> dict[str, str]:
    """The lines of ``/proc/PID[/task/TID]/status``."""
    path = f"/proc/{pid}/status" if tid is None else f"/proc/{pid}/task/{tid}/status"
    pairs = (line.split(":", 1) for line in Path(path).read_text().splitlines())
    return {key: value.strip() for key, value in pairs}


def catches(pid: int, number: int) -> bool:
    """True while a process has a handler for this signal. Ours for SIGURG is there from the moment
    at which sampling begins: long after our code was mapped."""
    return bool(int(status(pid)["SigCgt"], 16) & 1 << (number - 1))


def context_switches(pid: int, tid: int) -> int:
    """How often the thread has left the CPU. A thread that stays asleep keeps this number; one that
    is woken by a signal, or by anything else, cannot."""
    lines = status(pid, tid)
    return int(lines["voluntary_ctxt_switches"]) + int(lines["nonvoluntary_ctxt_switches"])


def cpu_ns(pid: int, tid: int) -> int:
    """CPU time of the thread: first field of its schedstat. Up to one kernel tick (4 ms at 250 Hz)
    late while the thread is on another CPU."""
    return int(Path(f"/proc/{pid}/task/{tid}/schedstat").read_text().split()[0])


def process_cpu_ns(pid: int) -> int:
    """CPU time of all threads that are alive."""
    return sum(cpu_ns(pid, tid) for tid in task_ids(pid))


def cpu_with_ended_ns(pid: int) -> int:
    """CPU time of a process, with that of ended threads: its clock, clock_getcpuclockid(3)."""
    return time.clock_gettime_ns((~pid << 3) | 2)


class Log:
    """Read something every few milliseconds while a block runs. The first reading is taken before
    the block, the last one behind it. ``_read`` takes one."""

    PERIOD_S = 0.005

    def __init__(self) -> None:
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self: LogT) -> LogT:
        self._read()
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        if kind is None:
            self._read()

    def _run(self) -> None:
        while not self._stop.wait(self.PERIOD_S):
            self._read()

    def _read(self) -> None:
        raise NotImplementedError


class CpuLog(Log):
    """Read the CPU time of some threads, so that the time used between any two moments of
    CLOCK_MONOTONIC within the block can be told after it."""

    def __init__(self, pid: int, tids: list[int]) -> None:
        super().__init__()
        self._pid = pid
        self._tids = tids
        # Of each reading when it began, what it said, and when it had ended: in between we may have
        # waited for a CPU.
        self._log: dict[int, list[tuple[int, int, int]]] = defaultdict(list)

    def _read(self) -> None:
        for tid in self._tids:
            begin_ns = time.monotonic_ns()
            used_ns = cpu_ns(self._pid, tid)
            self._log[tid].append((begin_ns, used_ns, time.monotonic_ns()))

    def used_ns(self, tid: int, start_ns: int, end_ns: int) -> tuple[int, int]:
        """The least and the most CPU time the thread can have used between two moments, by the
        readings before and after each. What it did in a hole between two readings, as they are on
        a busy machine, nobody knows.

        Raises:
            AssertionError: the log does not cover the span.
        """
        (least_at_start, most_at_start) = self._at(tid, start_ns)
        (least_at_end, most_at_end) = self._at(tid, end_ns)
        return max(least_at_end - most_at_start, 0), most_at_end - least_at_start

    def _at(self, tid: int, when_ns: int) -> tuple[int, int]:
        log = self._log[tid]
        before = [used_ns for _, used_ns, end_ns in log if end_ns <= when_ns]
        after = [used_ns for begin_ns, used_ns, _ in log if begin_ns >= when_ns]
        assert before, "the log begins too late"
        assert after, "the log ends too early"
        return before[-1], after[0]
