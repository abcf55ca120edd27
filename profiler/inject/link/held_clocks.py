"""Hold the precise clocks that the agent asks for.

The agent names a thread and the kind of its clock (``agent/sampling/perf_clocks.c``): one of its
own, or those of the CPUs that it uses. Where threads run is looked up here, from time to time, and
a CPU that none of them used for a while loses its clock.
"""

from __future__ import annotations

import contextlib
import os
import random
import time
from collections.abc import Collection

from ...linux import procfs
from . import perf_clock
from .perf_clock import OF_CPU, OF_THREAD, Kind, Process, Table

KINDS = {kind.number: kind for kind in (OF_THREAD, OF_CPU)}
# Interval of looks. Random, since the moments of the next events depend on it.
LOOK_LEAST_S, LOOK_MOST_S = 0.06, 0.16
DRAWN_MOST = 8  # CPUs whose period one look draws
READ_MOST = 8  # threads whose CPU one look reads
UNUSED_S = 5.0
THREADS_MOST = 1024
OWN_MOST = 256


class HeldClocks:
    """The clocks for one target. Used by one thread."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._table: Table | None = None
        self._mean_ns = 0
        self._programs: dict[Kind, int] = {}
        self._own: dict[int, int] = {}  # by thread
        self._of_cpus: dict[int, int] = {}  # by CPU
        self._moving: set[int] = set()  # threads that use those
        self._used_s: dict[int, float] = {}  # when a CPU was last used by one of them
        self._due_s = 0.0

    def want(self, tid: int, table: Table, mean_ns: int, kind_number: int) -> bool:
        """Sample a thread by a clock, or by one with a new period.

        Args:
            tid: its number as we know it.
            table: where the agent says whether a signal is wanted; the same for all threads.
            mean_ns: the mean CPU time between two samples, from now on.
            kind_number: a key of ``KINDS``.

        Returns:
            False if there is no clock for it.
        """
        kind = KINDS.get(kind_number)
        if kind is None or self._table not in (None, table):
            return False
        self._table, self._mean_ns = table, mean_ns
        self._leave(tid)
        if len(self._moving) + len(self._own) >= THREADS_MOST or not self._load(kind):
            return False
        if kind is OF_CPU:
            if self._use_cpu_of(tid):
                self._moving.add(tid)
            return tid in self._moving
        if len(self._own) < OWN_MOST and os.path.exists(f"/proc/{self._pid}/task/{tid}"):
            self._open(kind, tid, self._own)
        return tid in self._own

    def look(self) -> None:
        """Follow the threads to other CPUs, and draw periods anew, if that is due."""
        if time.monotonic() < self._due_s:
            return
        for tid in _some(self._moving, READ_MOST):
            if not self._use_cpu_of(tid):
                self._moving.discard(tid)
        for tid in _some(self._own, READ_MOST):
            if not os.path.exists(f"/proc/{self._pid}/task/{tid}"):
                self._leave(tid)
        for cpu in _some(self._of_cpus, DRAWN_MOST):
            if time.monotonic() - self._used_s[cpu] > UNUSED_S:
                os.close(self._of_cpus.pop(cpu))
            else:
                perf_clock.draw_period(self._of_cpus[cpu], self._mean_ns)
        self._due_s = time.monotonic() + random.uniform(LOOK_LEAST_S, LOOK_MOST_S)

    def wait_s(self) -> float | None:
        """Return the time until the next look; None while there are no clocks."""
        if not self._own and not self._of_cpus:
            return None
        return max(self._due_s - time.monotonic(), 0.001)

    def close(self) -> None:
        """End all clocks."""
        for held in (self._own, self._of_cpus, self._programs):
            while held:
                os.close(held.popitem()[1])

    def _leave(self, tid: int) -> None:
        self._moving.discard(tid)
        if tid in self._own:
            os.close(self._own.pop(tid))

    def _load(self, kind: Kind) -> bool:
        if kind not in self._programs and self._table is not None:
            with contextlib.suppress(OSError):  # the target has ended
                loaded = perf_clock.load_program(kind, Process.of(self._pid), self._table)
                if loaded >= 0:
                    self._programs[kind] = loaded
        return kind in self._programs

    def _open(self, kind: Kind, number: int, held: dict[int, int]) -> None:
        clock = perf_clock.open_clock(kind, number, self._programs[kind], self._mean_ns)
        if clock >= 0:
            held[number] = clock

    def _use_cpu_of(self, tid: int) -> bool:
        """See to it that the CPU where the thread ran last has a clock."""
        try:
            cpu = procfs.read_task_cpu(self._pid, tid)
        except (OSError, IndexError, ValueError):  # it has ended
            return False
        self._used_s[cpu] = time.monotonic()
        if cpu not in self._of_cpus:
            self._open(OF_CPU, cpu, self._of_cpus)
        return cpu in self._of_cpus


def _some(numbers: Collection[int], most: int) -> list[int]:
    return random.sample(sorted(numbers), min(len(numbers), most))
