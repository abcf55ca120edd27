"""Read the kernel's CPU times of the target's threads during a recording, to compare them.

``begin`` reads all threads once. ``look`` reads those that have run, about once a second and at
most MOST_THREADS each time. ``end`` reads them once more before the detach. A target in its own pid
namespace is not read: there its threads have other numbers than here.

Any thread may call: a dict is read as a copy, and changed in one step.
"""

from __future__ import annotations

import contextlib
import time
from collections import Counter

from ..linux import procfs
from ..linux.procfs import TaskTimes
from ..model import ThreadInfo
from ..recording.names.table import SymbolTable
from ..recording.profile.store import Profile
from .kernel_check import Comparison

LOOK_INTERVAL_S = 1.0
MOST_THREADS = 200  # those with the most CPU time
MOST_THREADS_ONCE = 2000
# A thread without a final reading is compared only if its last reading covers this share of its
# recorded CPU time. After that reading it may have run other code.
COVERED_SHARE = 0.97


class KernelWatch:
    """The kernel's CPU times of one process's threads; see the module docstring.

    Args:
        pid: the process.
        process: its ``Process.number``.
        proc: where procfs is mounted.
    """

    def __init__(self, pid: int, process: int = 0, proc: str = procfs.PROC) -> None:
        self._pid, self._process, self._proc = pid, process, proc
        self._is_off = True
        self._before: dict[int, TaskTimes | None] = {}  # tid → times at the start; None: not read
        self._last: dict[int, TaskTimes] = {}
        self._final: dict[int, TaskTimes] = {}
        self._cpu_ns: dict[int, int] = {}  # tid → the profile's CPU time at the last reading
        self._began_ns = self._ended_ns = 0
        self._next_s = 0.0
        self._readings = 0
        self._cached_notes: tuple[tuple[int, bool], list[str]] = ((0, False), [])

    def begin(self) -> None:
        """Read all threads. Call it when sampling begins."""
        with contextlib.suppress(OSError):
            if procfs.read_status(self._pid, self._proc).own_pid != self._pid:
                return
            tids = procfs.list_tasks(self._pid, self._proc)
            self._before = dict.fromkeys(tids)
            self._before.update(self._read(tids[:MOST_THREADS_ONCE], is_exact=True))
            self._is_off = False
            self._began_ns = time.monotonic_ns()
            self._next_s = time.monotonic() + LOOK_INTERVAL_S

    def give_up(self) -> None:
        """Stop comparing. Call it when sampling pauses or ends by itself.

        From then on the kernel and the recording count different times.
        """
        self._is_off = True

    def look(self, profile: Profile) -> None:
        """Read the threads that have run since the last look, if LOOK_INTERVAL_S has passed."""
        if self._is_off or time.monotonic() < self._next_s:
            return
        heaviest = self._heaviest(profile)
        ran = [thread for thread in heaviest if thread.cpu_ns != self._cpu_ns.get(thread.tid)]
        self._last.update(self._read([thread.tid for thread in ran], is_exact=False))
        self._cpu_ns.update((thread.tid, thread.cpu_ns) for thread in ran)
        self._readings += 1
        self._next_s = time.monotonic() + LOOK_INTERVAL_S

    def end(self, profile: Profile) -> None:
        """Read the threads once more. Call it right before sampling ends."""
        if not self._is_off:
            tids = [thread.tid for thread in self._heaviest(profile)]
            self._ended_ns = time.monotonic_ns()
            self._final = self._read(tids, is_exact=True)
            self._readings += 1

    def notes(self, profile: Profile, table: SymbolTable, *, is_final: bool) -> list[str]:
        """Describe each difference in a sentence; computed once per reading and once when final."""
        state = self._readings, is_final
        if self._cached_notes[0] != state:
            found = self.compare(profile, table)
            self._cached_notes = state, found.notes() if found else []
        return self._cached_notes[1]

    def compare(self, profile: Profile, table: SymbolTable) -> Comparison | None:
        """Return the figures of both sides; None if they cannot be compared.

        The user and system times are right once all addresses have names: names identify system
        calls.
        """
        if self._is_off:
            return None
        threads = [each for each in profile.threads.values() if each.process == self._process]
        used = Counter(thread.tid for thread in threads)  # the kernel may reuse a tid
        from ..code.node_weights import SeenCpu, cpu_by_thread

        seen_of = cpu_by_thread(profile, table)
        final = dict(self._final)
        last = {**self._last, **final}  # a look may have run after the end: the end takes priority
        n = user_ns = system_ns = faults = kernel_total_ns = seen_total_ns = 0
        seen = SeenCpu(0, 0, 0, 0, 0)
        for thread in threads:
            now, tid = last.get(thread.tid), thread.tid
            if now is None or used[tid] > 1 or thread.thread_id not in seen_of:
                continue
            before = self._before.get(tid, TaskTimes(0, 0, 0, 0))
            if before is None:
                continue
            spent, mine = now - before, seen_of[thread.thread_id]
            if tid in final and spent.cpu_ns is not None:
                kernel_total_ns += spent.cpu_ns
                seen_total_ns += mine.total_ns
            is_covered = spent.user_ns + spent.system_ns >= COVERED_SHARE * mine.total_ns
            if tid in final or is_covered:
                n += 1
                user_ns, system_ns = user_ns + spent.user_ns, system_ns + spent.system_ns
                faults += spent.page_faults
                seen += mine
        return Comparison(
            threads=n,
            duration_ns=profile.duration_ns,
            kernel_user_ns=user_ns,
            kernel_system_ns=system_ns,
            page_faults=faults,
            seen_ns=seen.with_stack_ns,
            seen_system_ns=seen.system_ns,
            seen_unblocking_ns=seen.unblocking_ns,
            without_stack_ns=seen.without_stack_ns,
            samples=seen.samples,
            kernel_total_ns=kernel_total_ns,
            seen_total_ns=seen_total_ns,
            kernel_duration_ns=self._ended_ns - self._began_ns,
        )

    def _heaviest(self, profile: Profile) -> list[ThreadInfo]:
        own = [each for each in profile.thread_infos() if each.process == self._process]
        alive = [each for each in own if each.tid and each.cpu_ns and not each.exited]
        return sorted(alive, key=lambda thread: -thread.cpu_ns)[:MOST_THREADS]

    def _read(self, tids: list[int], *, is_exact: bool) -> dict[int, TaskTimes]:
        found = {}
        for tid in tids:
            with contextlib.suppress(OSError):
                found[tid] = procfs.read_task_times(self._pid, tid, self._proc, is_exact=is_exact)
        return found
