"""Add CPU time that was used where no agent was: of processes before they were attached to, and of
those that ended before.

So the recording has the CPU time of all. Where the kernel has sampled them, a part has stacks. For
the rest stands a function that says why there is none, with the program's name.
"""

from __future__ import annotations

import queue
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from ..model import Frame, Module, Process, RawFrame, ThreadState
from ..wire.events import INTERVAL_DTYPE, Batch, ThreadUpdate
from .kernel_samples import NOT_SAMPLED, TICK_NS, Sampled
from .kernel_traces import KernelTraces, NewTraces
from .names.table import SymbolTable
from .numbers import Numbers
from .profile.store import Profile

EARLY = "before it was attached to"
LATE = "not sampled"
SHORT = "short-lived"
COUNTERS = {EARLY: "unattributed_early_ns", SHORT: "unattributed_short_ns"}
LEAST_NS = 1_000_000
# Of all processes of a program together. A sample of one may stand for more than that one has used.
RESERVE_NS = 50_000_000
MOST_AT_ONCE = 256  # CPUs whose time one process is believed to have used


class Namer(Protocol):
    """Finds the names of addresses in files; see ``Symbolizer``."""

    def add_module(self, module: Module) -> None: ...

    def submit_many(self, addresses: Iterable[tuple[int, RawFrame]], seen_ns: int = 0) -> None: ...

    def submit_calls(self, module_id: Any, *pairs: Any) -> None: ...

    def submit_leaves(self, leaves: Iterable[tuple[int, RawFrame]]) -> None: ...


class _Used(NamedTuple):
    process: int  # -1 for one that was not attached to
    program: str
    why: str
    until_ns: int
    rest_ns: int  # CPU time without a stack
    sampled: Sampled = NOT_SAMPLED


class Unsampled:
    """See the module. Any thread may add; the one that moves what the agents send applies.

    Args:
        profile: what it is added to.
        names: those of the recording.
        numbers: those of the recording.
        new_process: returns a new ``Process.number``.
        namer: finds the names of its stacks.

    Attributes:
        traces: the numbers of its stacks.
        n_samples: the kernel's samples that were added …
        sampled_ns: … and the CPU time that they stand for.
    """

    def __init__(
        self,
        profile: Profile,
        names: SymbolTable,
        numbers: Numbers,
        new_process: Callable[[], int],
        namer: Callable[[], Namer | None] = lambda: None,
    ) -> None:
        self._profile, self._names = profile, names
        self._numbers, self._new_process = numbers, new_process
        self._used: queue.SimpleQueue[_Used] = queue.SimpleQueue()
        self._threads: dict[tuple[int, str], tuple[int, int]] = {}  # number, first seen
        self._namer = namer
        self.traces = KernelTraces(numbers)
        self._times: Counter[str] = Counter()
        self._owed_ns: Counter[str] = Counter()  # told of, and not added yet
        self._lock = threading.Lock()  # of that and of the times
        self._added_ns: Counter[str] = Counter()
        self._short = -1
        self.n_samples = self.sampled_ns = 0

    def add_early(self, process: Process, cpu_ns: int, sampled: Sampled = NOT_SAMPLED) -> Sampled:
        """Add what a process had used before an agent came, nanoseconds.

        Returns:
            the samples that are of a later time.
        """
        first, others = sampled.split(cpu_ns)
        if cpu_ns > 0:
            self._add(process, EARLY, process.first_seen_ns, cpu_ns, first)
        return others

    def add_late(self, process: Process, cpu_ns: int, sampled: Sampled = NOT_SAMPLED) -> None:
        """Add what a process had used when it ended, and nobody has seen, nanoseconds."""
        if cpu_ns > LEAST_NS:
            self._add(process, LATE, time.monotonic_ns(), cpu_ns, sampled.last(cpu_ns))

    def _add(
        self, process: Process, why: str, until_ns: int, cpu_ns: int, sampled: Sampled
    ) -> None:
        sampled = sampled.scaled(cpu_ns).with_stack
        # The kernel may tell the time of the first thread only; the samples are of all.
        rest_ns = max(0, cpu_ns - sampled.cpu_ns)
        self._used.put(_Used(process.number, process.program, why, until_ns, rest_ns, sampled))

    def add_short(
        self, name: str, elapsed_ns: int, cpu_ns: int, sampled: Sampled = NOT_SAMPLED
    ) -> None:
        """Add what a process used in all that has just ended, nanoseconds.

        The kernel tells it up to the last time that it looked at the clock.
        """
        with self._lock:
            self._times[name] += 1
        cpu_ns = min(cpu_ns, elapsed_ns or cpu_ns)
        # What is told is of the first thread. One sample may stand for several processes.
        one_ns = max((each.cpu_ns for each in sampled.seen), default=0)
        most_ns = max(cpu_ns + TICK_NS + sampled.others_ns, one_ns)
        self._add_short(name, cpu_ns, sampled.scaled(most_ns))

    def add_ending(self, process: Process | None, name: str, sampled: Sampled) -> None:
        """Add what the kernel had to do when a process had ended; None if it was short-lived."""
        if process is None:
            self._add_short(name, sampled.cpu_ns, sampled)
        else:
            self.add_late(process, sampled.cpu_ns, sampled)

    def _add_short(self, name: str, cpu_ns: int, sampled: Sampled) -> None:
        with self._lock:
            owed_ns = self._owed_ns[name] + cpu_ns - sampled.cpu_ns
            rest_ns = max(0, owed_ns - RESERVE_NS)
            self._owed_ns[name] = owed_ns - rest_ns
        known = sampled.with_stack
        rest_ns += sampled.cpu_ns - known.cpu_ns
        self._used.put(_Used(-1, name, SHORT, time.monotonic_ns(), rest_ns, known))

    def settle(self) -> None:
        """Add what is known of short-lived processes, and was not added yet."""
        with self._lock:
            owed, self._owed_ns = self._owed_ns, Counter()
        for name, owed_ns in owed.items():
            if owed_ns > 0:
                self._used.put(_Used(-1, name, SHORT, time.monotonic_ns(), owed_ns))

    def counters(self) -> dict[str, int]:
        """Return the CPU time without a stack that was added so far, by reason, nanoseconds."""
        return {name: self._added_ns[why] for why, name in COUNTERS.items() if self._added_ns[why]}

    def apply(self) -> None:
        """Add it to the profile: one batch a process, however many have ended."""
        parts: dict[int, _Part] = {}
        new = NewTraces([], [])
        while not self._used.empty():
            self._collect(self._used.get(), parts, new)
        for process, part in parts.items():
            rows = np.concatenate(part.rows)
            modules, traces = new if not part.number else ([], [])
            threads = list(part.threads.values())
            batch = Batch(0, part.until_ns, modules, threads, [], traces, rows)
            self._profile.apply(batch, process)
        if new.traces:
            self._name([each.module for each in new.modules])

    def _collect(self, used: _Used, parts: dict[int, _Part], new: NewTraces) -> None:
        self._added_ns[used.why] += used.rest_ns
        self.n_samples += len(used.sampled.seen)
        self.sampled_ns += used.sampled.cpu_ns
        process, thread_name, is_short = used.process, f"[{used.why}]", used.process < 0
        if is_short:
            if self._short < 0:
                self._short = self._new_process()
                self._profile.add_process(Process(self._short, 0, f"[{SHORT}]", ""))
            process, thread_name = self._short, f"{used.program} × {self._times[used.program]:,}"
        rows = self._rows(used, new)
        start_ns = int(rows["t0_ns"].min()) if len(rows) else used.until_ns
        key = process, used.program + used.why
        if key not in self._threads:
            self._threads[key] = self._numbers.next_thread(), start_ns
        number, first_ns = self._threads[key]
        rows["thread_id"], rows["state"] = number, ThreadState.RUNNING
        part = parts.setdefault(process, _Part(len(parts), {}, []))
        part.threads[number] = ThreadUpdate(
            number, 0, thread_name, first_ns, exited=True, hidden=False, signals_blocked=False
        )
        part.rows.append(rows)
        part.until_ns = max(part.until_ns, used.until_ns)

    def _rows(self, used: _Used, new: NewTraces) -> npt.NDArray[np.void]:
        """Return the intervals of what was used, without their thread."""
        shown = used.sampled.seen
        # What a recording holds begins no earlier than itself, and ends when it was told.
        first_ns = self._profile.start_ns or 1
        longest_ns = max(used.until_ns - first_ns, used.rest_ns // MOST_AT_ONCE, 1)
        # Threads at once use more CPU time than the time that passes: each row is of one.
        n_rest = -(-used.rest_ns // longest_ns)
        rows = np.zeros(len(shown) + n_rest, INTERVAL_DTYPE)
        for row, seen in zip(rows, shown, strict=False):
            row["t0_ns"] = max(first_ns, seen.time_ns - seen.cpu_ns)
            row["wall_ns"] = row["cpu_ns"] = seen.cpu_ns
            row["trace_id"] = self.traces.of(seen.stack, new)
        rows["samples"] = 1
        if n_rest:
            rest = rows[-n_rest:]
            lengths_ns = np.full(n_rest, longest_ns)
            lengths_ns[-1] = used.rest_ns - longest_ns * (n_rest - 1)
            rest["t0_ns"] = np.maximum(first_ns, used.until_ns - lengths_ns)
            rest["wall_ns"] = rest["cpu_ns"] = lengths_ns
            rest["samples"] = 0
            rest["trace_id"] = self.traces.of(f"[{used.why}: {used.program}]", new)
        return rows

    def _name(self, modules: Sequence[Module]) -> None:
        """Have what is new in the profile named."""
        news = self._profile.news(self._numbers.passed_on)
        self._numbers.passed_on = news.mark
        in_files: list[tuple[int, RawFrame]] = []
        for address_id, frame in news.addresses:
            if frame.module_id == self.traces.module:
                self._names.set(address_id, [Frame(self.traces.stand_ins[frame.addr])])
            else:
                in_files.append((address_id, frame))
        namer = self._namer()
        if namer is not None:
            for module in modules:
                namer.add_module(module)
            namer.submit_many(in_files, self._profile.now_ns)
            namer.submit_calls(*news.calls)
            namer.submit_leaves(news.leaves)


@dataclass
class _Part:
    """What one process gets."""

    number: int  # from 0 on; the first one has all that is new
    threads: dict[int, ThreadUpdate]
    rows: list[npt.NDArray[np.void]]
    until_ns: int = 0
