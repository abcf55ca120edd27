"""Find out which stacks the threads that compute are on, before they get a first signal.

The kernel lays a signal's frame on the stack that a thread is on just then. That must be a stack
with room: memory below a coroutine's small stack belongs to somebody else. What the kernel tells of
a thread that runs is nothing, so at the end of the attach each thread that computes is stopped some
times, for less than 0.1 ms, and asked where its stack pointer stands; once also for its alternate
signal stack (``Injector.ask_alternate``). The agent draws the conclusions
(``agent/process/stack_headroom.c``).

Threads that wait now and then are left alone then: a stop could end such a wait. Where the agent
has to know the alternate stack of one, it asks for it later, and the thread is stopped once or
twice, when it runs (``AlternateStacks``). ptrace(2), sigaltstack(2), <asm-generic/signal.h>.
"""

from __future__ import annotations

import functools
import struct
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from ...linux import ptrace
from ...linux.arch_x86_64 import REGISTERS_BYTES, RSP
from ...linux.tasks import cpu_ns, status_fields, tasks
from .alternate import REFUSED, Alternate
from .stopper import Stopper

# A thread that spends a quarter of its time on other stacks is found out 999 times of 1 000.
ROUNDS = 24
ROUND_INTERVAL_S = 0.0007
# Looking takes this long at the most: on a busy machine each thread stops when its turn comes.
LIMIT_S = 0.3
# A thread computes that has used so much CPU time without waiting for anything …
COMPUTED_NS = 2_000_000
# … while it was watched, for so long at the most where it has to wait for a CPU.
WATCH_S = 0.005
WATCHES = 20
THREADS_MAX = 8
# So long is a thread watched that the agent asks for, and so often is it stopped at the most.
FIND_LIMIT_S = 0.004
FIND_INTERVAL_S = 0.0002
STOPS_MAX = 2
END_LIMIT_S = 1.0

Ask = Callable[[int], "Alternate | None"]


@dataclass
class Stacks:
    """The stacks of one thread: runtime addresses and bytes."""

    tid: int  # as its own process knows it: in its pid namespace
    sps: list[int]  # where the stack pointer stood
    alternate_start: int = 0
    alternate_bytes: int = -1  # 0: there is none, -1: unknown


def find(hold: Stopper, ask: Ask) -> list[Stacks]:
    """Look at the threads that compute.

    Args:
        hold: has a thread of the process stopped for a moment.
        ask: ``Injector.ask_alternate``.
    """
    pid = hold.pid
    found: dict[int, Stacks] = {}
    computing = dict(sorted(_computing(pid).items())[:THREADS_MAX])
    end_s = time.monotonic() + LIMIT_S
    for _ in range(ROUNDS):
        for tid, waits in list(computing.items()):
            if time.monotonic() > end_s:
                return list(found.values())
            status = status_fields(pid, tid)
            if not waits or _waits(status) != waits:  # a stop would end its next wait
                del computing[tid]
                continue
            stacks = found.setdefault(tid, Stacks(_own_tid(tid, status), []))
            hold.look(tid, functools.partial(_look, tid, stacks))
            if stacks.alternate_bytes < 0 and _may_be_asked(status):
                answer = ask(tid)
                if answer is not None:
                    stacks.alternate_start, stacks.alternate_bytes = answer
            computing[tid] = _waits(status_fields(pid, tid))  # the stop counts as one
        if computing:
            time.sleep(ROUND_INTERVAL_S)
    return list(found.values())


class AlternateStacks:
    """Tells where the alternate stacks of one process's threads are. Any thread may call it.

    Args:
        pid: the process.
        ask: ``Injector.ask_alternate``.
        is_replaced: whether the process is another program by now, whose threads are not asked.
    """

    def __init__(self, pid: int, ask: Ask, is_replaced: Callable[[], bool]) -> None:
        self._pid = pid
        self._ask = ask
        self._is_replaced = is_replaced
        self._asking = threading.Lock()
        self._is_over = False

    def find(self, tid: int) -> Alternate | None:
        """Ask a thread, with a few stops at most.

        Args:
            tid: its number as we know it.

        Returns:
            None if it was not met while it ran. ``REFUSED`` if it can never be asked.
        """
        pid = self._pid
        with self._asking:
            # A seccomp filter might kill the thread for a call that its program does not make.
            if status_fields(pid, tid).get(b"Seccomp") != b"0":
                return REFUSED
            found: Alternate | None = None
            stops, end_s = 0, time.monotonic() + FIND_LIMIT_S
            while found is None and stops < STOPS_MAX and time.monotonic() < end_s:
                if self._is_over or self._is_replaced():
                    return None
                before = status_fields(pid, tid)
                time.sleep(FIND_INTERVAL_S)
                after = status_fields(pid, tid)
                runs_on = _waits(before) and _waits(before) == _waits(after)
                if runs_on and _may_be_asked(after):
                    stops += 1
                    found = self._ask(tid)
            return found

    def end(self) -> None:
        """Ask no more."""
        self._is_over = True
        if self._asking.acquire(timeout=END_LIMIT_S):  # one that is under way
            self._asking.release()


def _look(tid: int, stacks: Stacks) -> None:
    """Note the stack pointer of a thread that is stopped."""
    sp = _stack_pointer(tid)
    if sp:
        stacks.sps.append(sp)


def _stack_pointer(tid: int) -> int:
    registers = ptrace.saved(tid, ptrace.NT_PRSTATUS, REGISTERS_BYTES)
    if registers is None:
        return 0
    words = struct.unpack(f"<{REGISTERS_BYTES // 8}Q", registers.raw)
    sp: int = words[RSP]
    return sp


def _may_be_asked(status: dict[bytes, bytes]) -> bool:
    """Tell whether a system call does no harm to a thread: a seccomp filter might kill it for one
    that its program does not make; a fault whose signal it has not taken yet would be lost.
    """
    return status.get(b"Seccomp") == b"0" and not int(status.get(b"SigPnd", b"1"), 16)


def _own_tid(tid: int, status: dict[bytes, bytes]) -> int:
    """The number of a thread in the innermost pid namespace that it is in. proc(5), ``NSpid``."""
    numbers = status.get(b"NSpid", b"").split()
    return int(numbers[-1]) if numbers else tid


def _computing(pid: int) -> dict[int, bytes]:
    """The threads that have used ``COMPUTED_NS`` without waiting for anything → ``_waits``."""
    before = {tid: (_waits(status_fields(pid, tid)), cpu_ns(pid, tid)) for tid in tasks(pid)}
    found: dict[int, bytes] = {}
    for _ in range(WATCHES):
        before = {
            tid: (waits, used_ns)
            for tid, (waits, used_ns) in before.items()
            if tid not in found and waits and waits == _waits(status_fields(pid, tid))
        }
        if not before:
            break
        time.sleep(WATCH_S)
        found |= {
            tid: waits
            for tid, (waits, used_ns) in before.items()
            if cpu_ns(pid, tid) - used_ns >= COMPUTED_NS
            and waits == _waits(status_fields(pid, tid))
        }
    return found


def _waits(status: dict[bytes, bytes]) -> bytes:
    """How often a thread has waited, in digits; empty if it is not running. proc(5), ``status``."""
    is_running = status.get(b"State", b"").startswith(b"R")
    return status.get(b"voluntary_ctxt_switches", b"") if is_running else b""
