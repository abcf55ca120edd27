"""Sample processes and all that they start, and keep the stacks of those that no agent is in.

The stacks of one are taken when it has ended, or when an agent has come. All processes of the
machine are sampled where that is allowed, and those of others are left out here.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections import Counter, defaultdict, deque
from collections.abc import Collection, Sequence

from ..linux import procfs
from ..linux.child_processes import descendants
from ..linux.file_rights import ProcessUser
from ..linux.maps import Mapping, read_maps
from ..recording.kernel_samples import ENDING, STARTING, UNKNOWN, Sampled, Seen, Stack
from .events import Forked, Mapped, PerfEvents, Sample
from .spaces import Spaces
from .unwind import walk

# No divisor of the periods of programs: in step with a timer, it would always see the same.
LEAST_PERIOD_NS = 1_973_117
# So much more for each CPU: all of them together make 2 000 samples a second.
CPU_PERIOD_NS = 493_279
READ_S = 0.05
TAIL, TAIL_BYTES = 48, 8192  # samples, and of the stack of each
MOST_TAILS = 128
MOST_WALKED = 20_000
# After so many samples of a program, each fifth is enough: it costs half a millisecond.
FULL, EACH = 25, 5
MOST_WATCHED = 4096  # of a thread whose CPU time an agent tells
MOST_KEPT = 200_000  # stacks that nobody has taken
MOST_ENDED = 4096  # processes whose names are known
_FOLDER = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
_WORKERS = 0x10 | 0x4000  # PF_IO_WORKER, PF_USER_WORKER: include/linux/sched.h


class PerfSampler:
    """See the module. Any thread may call.

    Args:
        pids: the processes. They are sampled from now on; the first one is to be handed over to
            an agent.
        is_new: there is one; it waits, and has started nothing yet.
        follows: what they start, and have started, is sampled, too.

    Attributes:
        is_paused: whether samples are left out.

    Raises:
        OSError: it is not allowed here.
    """

    def __init__(self, pids: Sequence[int], *, is_new: bool, follows: bool = True) -> None:
        self._period_ns = max(LEAST_PERIOD_NS, CPU_PERIOD_NS * (os.cpu_count() or 1))
        # It stays when the process has ended.
        self._root = -1 if is_new else os.open(f"{procfs.PROC}/{pids[0]}/root", _FOLDER)
        self._sees_all = True
        try:
            self._events = PerfEvents(None, self._period_ns)
        except OSError:
            if not is_new:
                os.close(self._root)
                raise
            self._sees_all = False
            self._events = PerfEvents(pids[0], self._period_ns)
        root = "" if is_new else f"{procfs.PROC}/self/fd/{self._root}"
        self._spaces = Spaces(root, None if is_new else ProcessUser(pids[0]))
        self._names: dict[int, str] = {}
        self._starting: set[int] = set()  # they have a new program, and have not run it yet
        # Whose samples are kept.
        self._family = {*pids, *(descendants(pids) if follows else ())}
        self._follows = follows
        self._watched: dict[int, deque[Seen]] = {}  # by tid
        for pid in self._family:
            with contextlib.suppress(*procfs.GONE):
                self._names[pid] = procfs.read_task_name(pid, pid)
        # Of those that an agent is in: what it saw last goes with the process.
        self._tails: dict[int, deque[Sample | Seen]] = {pids[0]: deque(maxlen=TAIL)}
        self._is_over = False
        self.is_paused = False
        self._times: Counter[int] = Counter()  # how often each was seen
        self._seen: defaultdict[int, list[Seen]] = defaultdict(list)
        self._ending: list[tuple[int, Seen]] = []
        self._left: list[tuple[str, Sampled]] = []  # of processes that nobody asks for any more
        self._ended: dict[int, None] = {}  # in order; the kernel is at work on the last ones
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
            for each in self._tails.pop(pid, ()):
                if isinstance(each, Seen):
                    self._keep(pid, each)
                else:
                    self._walk(each, self._period_ns)
            found = self._taken(pid)
            self._ended[pid] = None
            if len(self._ended) > MOST_ENDED:
                self._forget(next(iter(self._ended)))
            return found

    def hand_over(self, pid: int, from_ns: int) -> Sampled:
        """Return what was seen of a process that an agent samples from a moment on.

        It is sampled by the agent alone until it runs another program.
        """
        with self._lock:
            self._read()
            self._tails.pop(pid, None)
            tail = self._tails[pid] = deque(maxlen=TAIL)
            self._family.add(pid)
            if len(self._tails) > MOST_TAILS:  # nobody has told of its end
                del self._tails[next(iter(self._tails))]
            found = self._taken(pid)
            # Should it end before its agent has told of them.
            tail += (each for each in found.seen if each.time_ns > from_ns)
        return Sampled([each for each in found.seen if each.time_ns <= from_ns])

    def ending(self) -> list[tuple[int, str, Sampled]]:
        """Return what is new of processes that the kernel puts an end to, by pid and name.

        They have given their memory back. Nobody tells of the CPU time that this takes.
        """
        with self._lock:
            self._read()
            found, self._ending = self._ending, []
            return [(pid, self._names.get(pid, "?"), Sampled([seen])) for pid, seen in found]

    def left(self) -> list[tuple[str, Sampled]]:
        """Return what is new of processes of which nobody has told that they ended, by name."""
        with self._lock:
            found, self._left = self._left, []
            return found

    def watch(self, tid: int) -> None:
        """Keep the stacks of a thread, though an agent is in its process."""
        with self._lock:
            self._watched.setdefault(tid, deque(maxlen=MOST_WATCHED))

    def of_thread(self, tid: int, from_ns: int, until_ns: int) -> list[Seen]:
        """Return what was seen of a watched thread; what was before is forgotten."""
        with self._lock:
            seen = self._watched.get(tid, deque())
            if not seen or seen[-1].time_ns < until_ns:
                self._read()
            while seen and seen[0].time_ns <= from_ns:
                seen.popleft()
            found = []
            while seen and seen[0].time_ns <= until_ns:
                found.append(seen.popleft())
            return found

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
            if self._root >= 0:
                os.close(self._root)

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
            if isinstance(record, Forked):
                self._take_fork(record)
            elif not self._keeps(record.pid):
                continue
            elif isinstance(record, Sample):
                self._take_sample(record)
            elif isinstance(record, Mapped):
                if self._spaces.knows(record.pid):  # else all is read when it is needed
                    self._spaces.add(record)
            else:
                self._watched.pop(record.pid, None)
                self._tails.pop(record.pid, None)
                self._times.pop(record.pid, None)
                self._spaces.replace(record.pid)
                self._starting.add(record.pid)
                self._names[record.pid] = record.name

    def _keeps(self, pid: int) -> bool:
        return pid in self._family or not self._sees_all

    def _take_fork(self, record: Forked) -> None:
        pid, parent = record.pid, record.parent
        if pid in self._family:  # a process that had the number before
            self._leave(pid)
            self._forget(pid)
        if not (self._follows and self._keeps(parent)):
            return
        self._family.add(pid)
        if not self._spaces.knows(parent):
            self._begin(parent)
        self._spaces.fork(pid, parent)
        self._names[pid] = self._names.get(parent, "?")

    def _leave(self, pid: int) -> None:
        found = self._taken(pid)
        if found.seen:
            self._left.append((self._names.get(pid, "?"), found))

    def _forget(self, pid: int) -> None:
        self._taken(pid)
        self._spaces.end(pid)
        for by_pid in (self._tails, self._times, self._names, self._ended, self._watched):
            by_pid.pop(pid, None)
        self._starting.discard(pid)
        self._family.discard(pid)

    def _begin(self, pid: int) -> None:
        """Note what a process is that was there before us."""
        mappings: list[Mapping] = []
        with contextlib.suppress(*procfs.GONE, PermissionError):
            mappings += read_maps(f"{procfs.PROC}/{pid}")
        self._spaces.begin(pid, mappings)

    def _take_sample(self, sample: Sample) -> None:
        pid = sample.pid
        if self.is_paused:
            return
        if not sample.has_memory:
            if _works_for_kernel(pid, sample.tid):  # an agent tells of its time
                return
            self._ending.append((pid, Seen(sample.time_ns, self._period_ns, ENDING)))
            return
        if sample.tid in self._watched:
            self._watched[sample.tid].append(self._walked_sample(sample, self._period_ns))
            return
        if pid in self._tails:
            self._tails[pid].append(sample._replace(stack=bytes(sample.stack[:TAIL_BYTES])))
            return
        self._times[pid] += 1
        if self._times[pid] <= FULL:
            self._walk(sample, self._period_ns)
        elif self._times[pid] % EACH == 0:
            self._walk(sample, EACH * self._period_ns)

    def _walk(self, sample: Sample, cpu_ns: int) -> None:
        if self._n_kept >= MOST_KEPT:  # nobody tells of ends here: the oldest has ended
            self._leave(next(iter(self._seen)))
        self._keep(sample.pid, self._walked_sample(sample, cpu_ns))

    def _walked_sample(self, sample: Sample, cpu_ns: int) -> Seen:
        pid = sample.pid
        if not self._spaces.knows(pid):
            self._begin(pid)
        stack = UNKNOWN
        if sample.registers:
            stack = walk(sample, lambda addr: self._spaces.at(pid, addr))
        if sample.in_kernel and not (sample.stack and stack.places):
            # The registers are those of the program before; its memory has gone, or is about to.
            is_starting = pid in self._starting or not sample.stack
            stack = STARTING if sample.registers and is_starting else UNKNOWN
        elif stack.places:
            self._starting.discard(pid)
        else:
            stack = UNKNOWN
        if len(self._walked) > MOST_WALKED:
            self._walked.clear()
        stack = self._walked.setdefault(stack, stack)
        return Seen(sample.time_ns, cpu_ns, stack, sample.tid == pid)

    def _keep(self, pid: int, seen: Seen) -> None:
        self._seen[pid].append(seen)
        self._n_kept += 1


def _works_for_kernel(pid: int, tid: int) -> bool:
    """Return whether a thread without memory of its own is one of io_uring's or the like."""
    if tid == pid:
        return False
    with contextlib.suppress(*procfs.GONE, PermissionError):
        return bool(procfs.read_task_flags(pid, tid) & _WORKERS)
    return False
