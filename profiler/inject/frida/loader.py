"""Frida's loader in the target, seen from outside: a thread that the main thread starts, which
loads the agent, runs it, and says good-bye; and the memory that it runs in.

**A lock that the main thread holds.** Frida lets the main thread stand until the loader has loaded
the agent. If it was stopped while it held the dynamic loader's lock (in dlopen, dl_iterate_phdr,
the unwinding of an exception) both wait for ever, which looks as if a message had been lost; and a
busy machine may not come to the loader in the 5 s that Frida gives it. So ``ptrace_proxy`` does
that waiting, too, before Frida does, and as soon as the loader waits for a lock it lets the main
thread go. Otherwise it does not: a program that forks while another thread is in dlopen has a child
that cannot.

**Its memory** may go only when the thread has left it. At the end of a session Frida waits for that
thread, but asks for it by the number that it told: in a process with a pid namespace of its own
that is a number of that namespace, so Frida came at once, was refused, and 72 KiB stayed for good
(2 of 40 attaches on a busy machine).
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable
from dataclasses import dataclass

from ...linux import ptrace, remote_syscall, scheduling
from ...linux.syscalls import syscall_numbers
from ...linux.tasks import read_call, system_call, tasks
from .footprint import LOADER_BYTES, loaders

# How far up a stack addresses in the loader are looked for: it calls dlopen, which goes deep.
STACK_BYTES = 65536
# What the thread waits in for a message, and for a lock.
SYS_RECVMSG, SYS_FUTEX = syscall_numbers("recvmsg", "futex")
# How long it may take to load the agent: some hundredths of a second, but for a starved machine.
# The main thread stands still for that long, but not longer than …
LOAD_LIMIT_S = 10.0
STANDING_LIMIT_S = 3.0
# … and not when the loader has been waiting for a lock for so long.
LOCKED_S = 0.05
LOAD_INTERVAL_S = 0.002
# How long it may take to end once it has said good-bye.
LEAVE_LIMIT_S = 2.0
LEAVE_INTERVAL_S = 0.001


@dataclass(frozen=True)
class Loader:
    """A function that was called in a process, and the threads that have begun meanwhile: not each
    of them is Frida's, since jemalloc starts its own with the first one of a process.
    """

    pid: int
    start: int  # runtime_addr of the function, and of its memory
    born: frozenset[int]

    def threads_inside(self, size_bytes: int = LOADER_BYTES) -> list[int]:
        """Those threads that may come back to its memory."""
        end = self.start + size_bytes
        alive = self.born & tasks(self.pid)
        return [tid for tid in alive if _is_inside(self.pid, tid, self.start, end)]

    def wait_until_loaded(self, let_go: Callable[[], None], must_end: Callable[[], bool]) -> None:
        """Wait until it wants a message of Frida, or has gone.

        Its turns become short, and so do those of the agent's threads, which it starts: where 60 or
        200 threads want a CPU, an attach takes 15 % less time.

        Args:
            let_go: called when the main thread must not stand still any longer.
            must_end: asked all the time; True ends the wait, and lets go.
        """
        for tid in self.born:
            scheduling.set_short_turns(tid)
        waited_s = locked_s = 0.0
        is_standing = True
        while waited_s < LOAD_LIMIT_S:
            calls = {system_call(self.pid, tid).number for tid in self.threads_inside()}
            if not calls or SYS_RECVMSG in calls:
                break
            locked_s = locked_s + LOAD_INTERVAL_S if calls == {SYS_FUTEX} else 0.0
            is_over = must_end()
            if is_standing and (is_over or locked_s > LOCKED_S or waited_s > STANDING_LIMIT_S):
                let_go()
                is_standing = False
            if is_over:
                break
            time.sleep(LOAD_INTERVAL_S)
            waited_s += LOAD_INTERVAL_S

    def wait_until_left(self) -> None:
        """Wait until no thread is in its memory, for a while."""
        waited_s = 0.0
        while waited_s < LEAVE_LIMIT_S and self.threads_inside():
            time.sleep(LEAVE_INTERVAL_S)
            waited_s += LEAVE_INTERVAL_S

    def unmap(self) -> bool:
        """Make the process unmap its memory; False where nothing of the kind is there, or somebody
        is in it.
        """
        if self.start not in loaders(self.pid) or self.threads_inside():
            return False
        return remote_syscall.stop_and_unmap(self.pid, self.start, LOADER_BYTES)


class Loaders:
    """The functions of Frida's that one process has run, and what may become of their memory.

    Args:
        pid: the process.
        is_replaced: tells whether it has become another program.
    """

    def __init__(self, pid: int, is_replaced: Callable[[], bool]) -> None:
        self._pid = pid
        self._is_replaced = is_replaced
        self._known: dict[tuple[int, int], Loader] = {}  # by thread and runtime_addr
        self._unmapped: set[tuple[int, int]] = set()  # of these by us
        self._tasks_before = tasks(pid)

    def add(self, tid: int, start: int, born: frozenset[int]) -> Loader:
        """Note that a thread has run the function at ``start``, and which threads have begun."""
        loader = Loader(tid, start, born)
        self._known[tid, start] = loader
        self._unmapped.discard((tid, start))
        return loader

    def may_call(self, tid: int, start: int, size_bytes: int) -> bool:
        """Tell whether Frida may have a thread call a function with these arguments.

        Whoever passes the address of code that has run here wants to unmap that.
        """
        loader = self._known.get((tid, start))
        return not (
            (tid == self._pid and self._is_replaced())
            or (tid, start) in self._unmapped
            or (loader is not None and bool(loader.threads_inside(size_bytes)))
        )

    def wait_until_left(self, tid: int) -> None:
        """Wait until nothing is in the memory of what a thread has run, for a while."""
        for loader in self._of(tid):
            loader.wait_until_left()

    def unmap(self) -> None:
        """Make the process unmap what Frida's loader ran in, where that is still there and no
        thread is in it any more. Frida may not do so afterwards: something else may be there.
        """
        for loader in self._of(self._pid):
            with contextlib.suppress(OSError):  # who is in it cannot be told now
                if not self._is_replaced() and loader.born and loader.unmap():
                    self._unmapped.add((self._pid, loader.start))

    def reset_turns(self) -> None:
        """Give the target's own threads that Frida's have started turns of the usual length:
        jemalloc starts a thread when another one first allocates memory.
        """
        for tid in tasks(self._pid) - self._tasks_before:
            scheduling.reset_turns(tid)

    def _of(self, tid: int) -> list[Loader]:
        return [loader for (of, _), loader in list(self._known.items()) if of == tid]


def _is_inside(pid: int, tid: int, start: int, end: int) -> bool:
    """True if a thread may come back to code at ``start`` … ``end``: it runs, or an address in
    there is on its stack.
    """
    try:
        call = read_call(pid, tid)
        if call is None:
            return True
        words = ptrace.stack(pid, call.sp, STACK_BYTES)
    except ProcessLookupError:
        return False
    except OSError:
        return os.path.exists(f"/proc/{pid}/task/{tid}")
    return any(start <= word < end for word in (call.pc, *words))
