"""What the kernel itself says about a target: the oracle for CPU time, signals and context
switches."""

from __future__ import annotations

import contextlib
import threading
import time
from bisect import bisect_right
from collections import defaultdict
from pathlib import Path


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


class CpuLog:
    """Reads the CPU time of some threads every few milliseconds, so that the time used between any
    two moments of CLOCK_MONOTONIC can be told afterwards."""

    PERIOD_S = 0.005

    def __init__(self, pid: int, tids: list[int]) -> None:
        self._pid = pid
        self._tids = tids
        self._log: dict[int, list[tuple[int, int]]] = defaultdict(list)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> CpuLog:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(self.PERIOD_S):
            for tid in self._tids:
                used_ns = cpu_ns(self._pid, tid)
                self._log[tid].append((time.monotonic_ns(), used_ns))

    def used_ns(self, tid: int, start_ns: int, end_ns: int) -> float:
        """CPU time the thread used between two moments, interpolated between readings.

        Raises:
            AssertionError: the log does not cover the span.
        """
        return self._at(tid, end_ns) - self._at(tid, start_ns)

    def _at(self, tid: int, when_ns: int) -> float:
        log = self._log[tid]
        assert log[0][0] <= when_ns <= log[-1][0], "the log does not cover the recording"
        right = min(bisect_right(log, (when_ns, 1 << 62)), len(log) - 1)
        (t0, used0), (t1, used1) = log[right - 1], log[right]
        return used0 + (used1 - used0) * (when_ns - t0) / (t1 - t0)
