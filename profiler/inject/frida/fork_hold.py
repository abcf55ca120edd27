"""Keep threads of a target that fork from going on while threads of Frida's hold locks of the C
library.

They do while they load the agent and while it leaves: the loader's, the locale's, that of the list
of functions to call at exit. A child of fork(2) that is made meanwhile has only a copy of the
thread that made it: it finds the lock taken for ever, or a list half changed
(``tests/targets/heirs.c``). Once the agent is there it takes none. Most programs that fork do so in
their main thread, others in threads that can be seen to have children. These stand still in the
meantime, with the registers and the signal mask they came with: whatever becomes of us, the kernel
then lets them continue as if nothing had been (ptrace(2)).

- ``ask`` before an attach: the other threads are stopped when Frida stops the main thread
  (``stop_others``). The main thread stays stopped when Frida detaches from it (``attach_state``).
- ``stop`` before the agent leaves.
- ``let_go`` in both cases; without it they go on after ``LIMIT_S``.

``look`` stops a thread only to read something of it.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping

from ...errors import CannotAttachError
from ...linux import eintr_restart, procfs, ptrace
from ...linux.ptrace_thread import Tracer
from ...linux.syscalls import syscall_numbers
from ...linux.tasks import is_of_kernel, system_call, tasks
from . import fork_exit
from .attach_events import Asked, HeldGoes, HeldStands, LetGo, Release, Seized, Tick
from .attach_state import Held, Progress

# How long the threads are kept at the most. To load the agent takes 0.05 s, to leave 0.01 s; on an
# overloaded machine either takes a second.
LIMIT_S = 3.0
# How long they may take to stop: they wait for a CPU, or for the end of a big fork. In
# uninterruptible sleep (vfork, too) a thread does not stop at all, and forks nothing.
STOP_LIMIT_S = 1.0
LOOK_INTERVAL_S = 0.02
STOP_LOOK_INTERVAL_S = 0.0005
# The same for a thread that is stopped for a moment only (``look``).
LOOK_LIMIT_S = 0.25
BRIEF_INTERVAL_S = 0.00005
# How long threads other than the main one are watched for children.
WATCH_S = 0.05
WATCH_INTERVAL_S = 0.001
FORKS = frozenset(syscall_numbers("clone", "fork", "clone3"))


class ForkHold:
    """What is kept of one process during one attach.

    Its threads are traced by a thread of its own (``tracer``). What says so below is called there.

    Args:
        progress: of that attach.

    Attributes:
        pid: the process.
    """

    def __init__(self, progress: Progress) -> None:
        self.pid = progress.state.pid
        self._progress = progress
        self.tracer = Tracer(self.expire, LOOK_INTERVAL_S)

    def until_s(self) -> float:
        """When a thread continues at the latest that is held from now on (monotonic clock)."""
        return time.monotonic() + LIMIT_S

    @property
    def _held(self) -> Mapping[int, Held]:
        return self._progress.state.held

    def ask(self) -> None:
        """Keep the main thread when Frida lets go of it, and stop others that fork before."""
        self._progress.apply(Asked())

    def stop(self) -> None:
        """Stop the threads that fork and keep them. Nothing happens where that cannot be had."""
        with contextlib.suppress(OSError):
            self.tracer.run(lambda: self._stop([self.pid, *_others(self.pid)]))

    def stop_others(self, tid: int) -> None:
        """The same without the main thread, if that is ``tid`` and ``ask`` was called. Only on the
        thread that traces.
        """
        if tid == self.pid and self._progress.state.is_asked:
            self._stop(_others(tid))

    def let_go(self) -> None:
        """Have what is kept go on, and forget that it was to be."""
        if self._progress.apply(LetGo()):
            self.tracer.run(self._let_go)

    def _let_go(self) -> int:
        # Asked again: while another call was carried out more may have come.
        actions = self._progress.apply(LetGo())
        return sum(self.release(each.tid) for each in actions if isinstance(each, Release))

    def is_held(self) -> bool:
        """True while the main thread is kept."""
        return self.pid in self._held

    def let_all_go(self) -> None:
        """``let_go``, also of threads that were not kept for their forks."""
        self.let_go()
        if self._held:
            self.tracer.run(self.release_all)

    def release_all(self) -> int:
        """The same, on the thread that traces. Returns 0 if nothing is kept any longer."""
        return sum(self.release(tid) for tid in list(self._held))

    def release(self, tid: int, limit_s: float = STOP_LIMIT_S) -> int:
        """``let_go`` of one thread, on the one that traces. Returns 0 if we trace it no longer."""
        if tid not in self._held:
            return 0
        for _ in range(round(limit_s / STOP_LOOK_INTERVAL_S)):
            number = self._held[tid].number
            if ptrace.ptrace(ptrace.PTRACE_DETACH, tid, None, number) == 0 or self._has_ended(tid):
                self._progress.apply(HeldGoes(tid))
                return 0
            time.sleep(STOP_LOOK_INTERVAL_S)  # it has not stopped yet
        return 1

    def release_others(self, pid: int, limit_s: float = STOP_LOOK_INTERVAL_S) -> int:
        """The same for all but the main one: somebody may wait for a lock that one of them has."""
        return sum(self.release(tid, limit_s) for tid in self._progress.state.others(pid))

    def bring_out(self, pid: int, number: int, options: int) -> int | None:
        """``fork_exit.finish`` for the main thread, which may need a lock that another one has."""
        if not any(kept.pid == pid != tid for tid, kept in self._held.items()):
            return fork_exit.finish(pid, number, options)
        try:
            return fork_exit.finish(pid, number, options)
        except CannotAttachError:
            self.release_others(pid, STOP_LIMIT_S)
            return fork_exit.finish(pid, 0, options)

    def expire(self) -> bool:
        """End what has lasted long enough. Return True while anything is left that will.

        Only on the thread that traces, wherever that waits: one that dies while it is kept holds up
        the end of its process.
        """
        now_s = time.monotonic()
        dead = frozenset(tid for tid in self._held if _is_dead(tid))
        for action in self._progress.apply(Tick(now_s, dead)):
            if isinstance(action, Release):
                # A frozen one cannot be released: others have to be.
                self.release(action.tid, STOP_LOOK_INTERVAL_S)
        return bool(self._held)

    def look(self, tid: int, read: Callable[[], object]) -> None:
        """Stop a thread for a moment and have ``read`` called while it stands still.

        Nothing is read from a thread that does not stop in time (it continues as soon as it has),
        or that is about to take a signal.
        """
        with contextlib.suppress(OSError):
            self.tracer.run(lambda: self._look(tid, read))

    def _look(self, tid: int, read: Callable[[], object]) -> int:
        if tid in self._held or not self._seize(tid):
            return 0
        self._progress.apply(Seized(tid, time.monotonic(), is_brief=True))
        ptrace.ptrace(ptrace.PTRACE_INTERRUPT, tid, None, None)
        try:
            for _ in range(round(LOOK_LIMIT_S / BRIEF_INTERVAL_S)):
                if self._has_stopped(tid):
                    # Before a signal of its own it has to be released as it is: a fault's handler
                    # is told where the fault was only if nothing comes in between.
                    if tid in self._held and not self._held[tid].number:
                        read()
                    break
                time.sleep(BRIEF_INTERVAL_S)
        finally:
            self.release(tid, STOP_LOOK_INTERVAL_S)  # or ``expire`` does it
        return 0

    def _stop(self, tids: Iterable[int]) -> int:
        coming = []
        for tid in tids:
            if tid not in self._held and self._seize(tid):
                self._progress.apply(Seized(tid, self.until_s()))
                ptrace.ptrace(ptrace.PTRACE_INTERRUPT, tid, None, None)
                coming.append(tid)
        stopped: list[int] = []
        for _ in range(round(STOP_LIMIT_S / STOP_LOOK_INTERVAL_S)):
            stopped += [tid for tid in coming if self._has_stopped(tid)]
            coming = [tid for tid in coming if tid not in stopped]
            if not coming:
                break
            time.sleep(STOP_LOOK_INTERVAL_S)
        # One may have to leave fork before another one can.
        for tid in stopped * min(2, len(stopped)):
            number = fork_exit.finish(tid, self._held[tid].number) or 0
            self._progress.apply(HeldStands(tid, number))
        pid = self.pid
        if pid in stopped and len(stopped) > 1:
            number = self.bring_out(pid, self._held[pid].number, 0) or 0
            self._progress.apply(HeldStands(pid, number))
        for tid in stopped:
            eintr_restart.prepare(tid)
        return 0

    def _seize(self, tid: int) -> bool:
        """Begin to trace a thread, unless it is one of the kernel's."""
        return not is_of_kernel(self.pid, tid) and not ptrace.ptrace(
            ptrace.PTRACE_SEIZE, tid, None, None
        )

    def _has_stopped(self, tid: int) -> bool:
        """Take note of the signal that it may have stopped with. True also when it has ended."""
        status = ctypes.c_int()
        found = ptrace.waitpid(tid, ctypes.addressof(status), os.WNOHANG | ptrace.WALL)
        if found != tid or not os.WIFSTOPPED(status.value):
            return bool(found)
        held = self._held[tid]
        number = ptrace.signal_of(status.value) or held.number
        self._progress.apply(HeldStands(tid, number))
        eintr_restart.prepare(tid, has_just_begun=held.is_brief)
        return True

    def _has_ended(self, tid: int) -> bool:
        """Tell whether nothing is left to release; a thread that has only just stopped is."""
        self._has_stopped(tid)
        with contextlib.suppress(OSError), open(f"/proc/{tid}/status", "rb") as file:
            return b"\nTracerPid:\t%d\n" % threading.get_native_id() not in file.read()
        return True


def _others(pid: int) -> set[int]:
    """The threads that make children, but for the main one and those in a wait that a stop may end.

    Looked at for a while, if the process has ever had children: between two of its children a
    thread looks like all others.
    """
    found: set[int] = set()
    end_s = time.monotonic() + WATCH_S
    while True:
        found |= {tid for tid in tasks(pid) - {pid} if _makes_children(pid, tid)}
        if time.monotonic() > end_s or not (found or _had_children(pid)):
            break
        time.sleep(WATCH_INTERVAL_S)
    return {tid for tid in found if not eintr_restart.may_end(system_call(pid, tid))}


def _makes_children(pid: int, tid: int) -> bool:
    """proc(5), ``children``; where that file is missing, only while it forks."""
    if system_call(pid, tid).number in FORKS:
        return True
    with contextlib.suppress(OSError), open(f"/proc/{pid}/task/{tid}/children") as file:
        return bool(file.read())
    return False


def _had_children(pid: int) -> bool:
    """True if it has waited for some that had page faults, as all have. proc(5), ``cminflt``."""
    with contextlib.suppress(OSError), open(f"/proc/{pid}/stat", "rb") as file:
        return file.read().rpartition(b")")[2].split()[8] != b"0"
    return False


def _is_dead(tid: int) -> bool:
    """A dead one is seen by its parent only when we have released it."""
    with contextlib.suppress(OSError):
        return procfs.read_task_state(tid, tid) in "ZX"
    return True
