"""Sample a process and all that it starts, and keep the stacks of those that no agent is in.

Its stacks are taken when the process has ended, or when an agent has come.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections import Counter, defaultdict, deque
from collections.abc import Collection

from ..linux import procfs
from ..linux.maps import read_maps
from ..recording.unsampled import Sampled, Seen, Stack
from .events import Forked, Mapped, PerfEvents, Replaced, Sample
from .spaces import Spaces
from .unwind import walk

LEAST_PERIOD_NS = 2_000_000
# So much more for each CPU: all of them together make 2 000 samples a second.
CPU_PERIOD_NS = 500_000
READ_S = 0.05
TAIL, TAIL_BYTES = 48, 8192  # samples, and of the stack of each
MOST_TAILS = 128
MOST_WALKED = 20_000
# After so many samples of a program, each fifth is enough: it costs half a millisecond.
FULL, EACH = 25, 5
MOST_KEPT = 200_000  # stacks that nobody has taken


class PerfSampler:
    """See the module. Any thread may call.

    Args:
        pid: the process; it waits to be released.

    Attributes:
        is_paused: whether samples are left out.

    Raises:
        OSError: it is not allowed here.
    """

    def __init__(self, pid: int) -> None:
        self._period_ns = max(LEAST_PERIOD_NS, CPU_PERIOD_NS * len(os.sched_getaffinity(0)))
        self._events = PerfEvents(pid, self._period_ns)
        self._spaces = Spaces()
        self._names: dict[int, str] = {}
        with contextlib.suppress(*procfs.GONE):
            self._names[pid] = procfs.read_task_name(pid, pid)
            self._spaces.begin(pid, read_maps(f"{procfs.PROC}/{pid}"))
        # Of those that an agent is in: what it saw last goes with the process.
        self._tails: dict[int, deque[Sample]] = {pid: deque(maxlen=TAIL)}
        self._is_over = False
        self.is_paused = False
        self._times: Counter[int] = Counter()  # how often each was seen
        self._seen: defaultdict[int, list[Seen]] = defaultdict(list)
        self._walked: dict[Stack, Stack] = {}  # each stack once
        self._n_kept = 0
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._loop, name="flametap-perf", daemon=True)
        self._thread.start()

    @property
    def lost(self) -> int:
        """How many of the kernel's records found no room."""
        return self._events.lost

    def take(self, pid: int) -> Sampled:
        """Return what was seen of a process that has ended, in order of time.

        Of what an agent sampled, too, that is the last tenth of a second.
        """
        with self._lock:
            self._read()
            for sample in self._tails.pop(pid, ()):
                self._walk(sample, self._period_ns)
            return self._taken(pid)

    def hand_over(self, pid: int, from_ns: int) -> Sampled:
        """Return what was seen of a process that an agent samples from a moment on.

        It is sampled by the agent alone until it runs another program.
        """
        with self._lock:
            self._read()
            self._tails.pop(pid, None)
            self._tails[pid] = deque(maxlen=TAIL)
            if len(self._tails) > MOST_TAILS:  # nobody has told of its end
                del self._tails[next(iter(self._tails))]
            found = self._taken(pid)
        return Sampled([each for each in found.seen if each.time_ns <= from_ns])

    def rest(self, known: Collection[int]) -> list[tuple[str, Sampled]]:
        """Return what nobody has taken, by the names of the processes.

        Args:
            known: processes whose CPU time is known otherwise.
        """
        with self._lock:
            self._read()
            pids = [pid for pid in self._seen if pid not in known]
            return [(self._names.get(pid, "?"), self._taken(pid)) for pid in pids]

    def _taken(self, pid: int) -> Sampled:
        found = self._seen.pop(pid, [])
        self._n_kept -= len(found)
        return Sampled(found)

    def close(self) -> None:
        """Sample no more. Idempotent."""
        if self._closing.is_set():
            return
        self._closing.set()
        self._thread.join()
        with self._lock:
            self._read()
            self._read()  # what came amid the one before
            self._is_over = True
            self._events.close()

    def _loop(self) -> None:
        while not self._closing.wait(READ_S):
            with self._lock:
                self._read()

    def _read(self) -> None:
        if self._is_over:
            return
        try:
            self._take_all()
        except Exception:  # whatever the kernel writes, or a file holds: the recording goes on
            self._is_over = True

    def _take_all(self) -> None:
        for record in self._events.read():
            if isinstance(record, Sample):
                self._take_sample(record)
            elif isinstance(record, Mapped):
                self._spaces.add(record)
            elif isinstance(record, Forked):
                self._tails.pop(record.pid, None)  # of a process that had the number before
                self._taken(record.pid)
                self._times.pop(record.pid, None)
                self._spaces.fork(record.pid, record.parent)
                self._names[record.pid] = self._names.get(record.parent, "?")
            elif isinstance(record, Replaced):
                self._tails.pop(record.pid, None)
                self._times.pop(record.pid, None)
                self._spaces.replace(record.pid)
                self._names[record.pid] = record.name

    def _take_sample(self, sample: Sample) -> None:
        pid = sample.pid
        if self.is_paused:
            return
        if pid in self._tails:
            self._tails[pid].append(sample._replace(stack=sample.stack[:TAIL_BYTES]))
            return
        self._times[pid] += 1
        if self._times[pid] <= FULL:
            self._walk(sample, self._period_ns)
        elif self._times[pid] % EACH == 0:
            self._walk(sample, EACH * self._period_ns)

    def _walk(self, sample: Sample, cpu_ns: int) -> None:
        if not sample.registers or self._n_kept >= MOST_KEPT:
            return
        pid = sample.pid
        stack = walk(sample, lambda addr: self._spaces.at(pid, addr))
        if len(self._walked) > MOST_WALKED:
            self._walked.clear()
        stack = self._walked.setdefault(stack, stack)
        if stack.places:
            self._seen[pid].append(Seen(sample.time_ns, cpu_ns, stack))
            self._n_kept += 1
