"""Add CPU time that was used where nothing was sampled: of processes before they were attached to,
and of those that ended before.

So the recording has the CPU time of all. It has no stack: a function that says why, with the
program's name, stands for it.
"""

from __future__ import annotations

import queue
import time
from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ..model import Frame, FrameKind, Function, Process, ThreadState, Verdict
from ..wire.abi import FRAME_KIND_MODULE, FRAME_KIND_SHIFT, FRAME_MODULE_SHIFT
from ..wire.events import INTERVAL_DTYPE, Batch, ThreadUpdate, Trace
from .names.table import SymbolTable
from .numbers import Numbers
from .profile.store import Profile

EARLY = "before it was attached to"
LATE = "not sampled"
SHORT = "short-lived"
COUNTERS = {EARLY: "unattributed_early_ns", SHORT: "unattributed_short_ns"}
LEAST_NS = 1_000_000


class _Used(NamedTuple):
    process: int  # -1 for one that was not attached to
    program: str
    why: str
    until_ns: int
    cpu_ns: int


class Unsampled:
    """See the module. Any thread may add; the one that moves what the agents send applies.

    Args:
        profile: what it is added to.
        names: those of the recording.
        numbers: those of the recording.
        new_process: returns a new ``Process.number``.
    """

    def __init__(
        self,
        profile: Profile,
        names: SymbolTable,
        numbers: Numbers,
        new_process: Callable[[], int],
    ) -> None:
        self._profile, self._names = profile, names
        self._numbers, self._new_process = numbers, new_process
        self._used: queue.SimpleQueue[_Used] = queue.SimpleQueue()
        self._threads: dict[tuple[int, str], tuple[int, int]] = {}  # number, first seen
        self._traces: dict[str, int] = {}  # by function
        self._times: Counter[str] = Counter()
        self._added_ns: Counter[str] = Counter()
        self._module = 0
        self._short = -1

    def add_early(self, process: Process, cpu_ns: int) -> None:
        """Add what a process had used before it was sampled, nanoseconds."""
        if cpu_ns > 0:
            until_ns = process.first_seen_ns
            self._used.put(_Used(process.number, process.program, EARLY, until_ns, cpu_ns))

    def add_late(self, process: Process, cpu_ns: int) -> None:
        """Add what a process had used when it ended, and nobody has seen, nanoseconds."""
        if cpu_ns > LEAST_NS:
            until_ns = time.monotonic_ns()
            self._used.put(_Used(process.number, process.program, LATE, until_ns, cpu_ns))

    def add_short(self, name: str, elapsed_ns: int, cpu_ns: int) -> None:
        """Add what a process used in all that has just ended, nanoseconds."""
        self._times[name] += 1
        used_ns = min(cpu_ns, elapsed_ns or cpu_ns)
        self._used.put(_Used(-1, name, SHORT, time.monotonic_ns(), used_ns))

    def counters(self) -> dict[str, int]:
        """Return the CPU time that was added so far, by reason, nanoseconds."""
        return {name: self._added_ns[why] for why, name in COUNTERS.items() if self._added_ns[why]}

    def apply(self) -> None:
        """Add it to the profile."""
        found: list[_Used] = []
        while not self._used.empty():
            found.append(self._used.get())
        for used in found:
            self._apply(used)

    def _apply(self, used: _Used) -> None:
        self._added_ns[used.why] += used.cpu_ns
        process, thread_name, is_short = used.process, f"[{used.why}]", used.process < 0
        if is_short:
            if self._short < 0:
                self._short = self._new_process()
                self._profile.add_process(Process(self._short, 0, f"[{SHORT}]", ""))
            process, thread_name = self._short, f"{used.program} × {self._times[used.program]:,}"
        start_ns = max(1, used.until_ns - used.cpu_ns)
        key = process, used.program + used.why
        if key not in self._threads:
            self._threads[key] = self._numbers.next_thread(), start_ns
        number, first_ns = self._threads[key]
        thread = ThreadUpdate(
            number, 0, thread_name, first_ns, exited=True, hidden=False, signals_blocked=False
        )
        traces, trace_id = self._trace(f"[{used.why}: {used.program}]")
        rows = np.zeros(1, INTERVAL_DTYPE)
        rows["t0_ns"], rows["wall_ns"], rows["cpu_ns"] = start_ns, used.cpu_ns, used.cpu_ns
        rows["thread_id"], rows["trace_id"] = number, trace_id
        rows["state"] = ThreadState.RUNNING
        self._profile.apply(Batch(0, used.until_ns, [], [thread], [], traces, rows), process)
        if traces:
            news = self._profile.news(self._numbers.passed_on)
            self._numbers.passed_on = news.mark
            function = Function(f"[{used.why}: {used.program}]", "", kind=FrameKind.SYNTHETIC)
            for address_id, _ in news.addresses:
                self._names.set(address_id, [Frame(function)])

    def _trace(self, function: str) -> tuple[list[Trace], int]:
        """Return the number of what stands for a function, and what is new of it."""
        if function in self._traces:
            return [], self._traces[function]
        self._module = self._module or self._numbers.next_module()
        number = self._traces[function] = self._numbers.next_trace()
        place = self._module << FRAME_MODULE_SHIFT | len(self._traces)
        frames = np.array([FRAME_KIND_MODULE << FRAME_KIND_SHIFT | place], np.uint64)
        return [Trace(number, Verdict.NO_STACK, 0, frames)], number
