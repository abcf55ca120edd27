"""Find out which stacks the threads that compute are on, before they get a first signal.

The kernel lays a signal's frame on the stack that a thread is on just then. That must be a stack
with room: memory below a coroutine's small stack belongs to somebody else. What the kernel tells of
a thread that runs is nothing, so at the end of the attach each thread that computes is stopped some
times, for less than 0.1 ms, and asked where its stack pointer stands; once also for its alternate
signal stack, by a system call that it makes for us. The agent draws the conclusions
(``agent/process/stack_headroom.c``).

Threads that wait now and then are left alone then: a stop could end such a wait. Where the agent
has to know the alternate stack of one, it asks for it later, and the thread is stopped once or
twice, when it runs (``AlternateStacks``). ptrace(2), sigaltstack(2), <asm-generic/signal.h>.
"""

from __future__ import annotations

import contextlib
import functools
import struct
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from ...linux import ptrace, remote_syscall
from ...linux.arch_x86_64 import REGISTERS_BYTES, RSP
from ...linux.syscalls import syscall_number
from ...linux.tasks import status_fields, tasks
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
# A thread on its own stack may write there: below the red zone of the function that it is in.
BELOW_SP_BYTES = 1024
END_LIMIT_S = 1.0
SYS_SIGALTSTACK = syscall_number("sigaltstack")
STACK_T = struct.Struct("<QiiQ")  # start, flags, padding, size


class Alternate(NamedTuple):
    """An alternate signal stack: runtime_addr and bytes, 0 bytes for none."""

    start: int
    size_bytes: int


REFUSED = Alternate(0, -1)


@dataclass
class Stacks:
    """The stacks of one thread: runtime addresses and bytes."""

    tid: int  # as its own process knows it: in its pid namespace
    sps: list[int]  # where the stack pointer stood
    alternate_start: int = 0
    alternate_bytes: int = -1  # 0: there is none, -1: unknown


def find(hold: Stopper, scratch_addr: int) -> list[Stacks]:
    """Look at the threads that compute.

    Args:
        hold: has a thread of the process stopped for a moment.
        scratch_addr: runtime_addr of ``STACK_T.size`` bytes in it that nobody uses meanwhile.
    """
    pid = hold.pid
    found: dict[int, Stacks] = {}
    computing = dict(sorted(_computing(pid).items())[:THREADS_MAX])
    instruction = remote_syscall.find_syscall(pid) if computing else 0
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
            look = functools.partial(_look, pid, tid, stacks, instruction, scratch_addr)
            hold.look(tid, look)
            computing[tid] = _waits(status_fields(pid, tid))  # the stop counts as one
        if computing:
            time.sleep(ROUND_INTERVAL_S)
    return list(found.values())


class AlternateStacks:
    """Tells where the alternate stacks of one process's threads are. Any thread may call it.

    Args:
        hold: has a thread of the process stopped for a moment.
        is_replaced: whether the process is another program by now, whose threads are not asked.
    """

    def __init__(self, hold: Stopper, is_replaced: Callable[[], bool]) -> None:
        self._hold = hold
        self._is_replaced = is_replaced
        self._asking = threading.Lock()
        self._is_over = False
        self._instruction = -1  # see ``remote_syscall.find_syscall``; -1: not looked for yet

    def find(self, tid: int, own_stack: tuple[int, int]) -> Alternate | None:
        """Ask a thread, with a few stops at most.

        Args:
            tid: its number as we know it.
            own_stack: runtime_addr of its start and end. The thread writes below what it uses.

        Returns:
            None if it was not met while it ran on that stack. ``REFUSED`` if it can never be asked.
        """
        pid = self._hold.pid
        with self._asking:
            # A seccomp filter might kill the thread for a call that its program does not make.
            if status_fields(pid, tid).get(b"Seccomp") != b"0":
                return REFUSED
            if self._instruction < 0:
                self._instruction = remote_syscall.find_syscall(pid)
            if not self._instruction:
                return REFUSED
            found: list[Alternate] = []
            stops, end_s = 0, time.monotonic() + FIND_LIMIT_S
            while not found and stops < STOPS_MAX and time.monotonic() < end_s:
                if self._is_over:
                    return None
                before = status_fields(pid, tid)
                time.sleep(FIND_INTERVAL_S)
                after = status_fields(pid, tid)
                runs_on = _waits(before) and _waits(before) == _waits(after)
                if runs_on and not int(after.get(b"SigPnd", b"1"), 16):
                    stops += 1
                    self._hold.look(tid, functools.partial(self._ask, tid, own_stack, found))
            return found[0] if found else None

    def _ask(self, tid: int, own_stack: tuple[int, int], found: list[Alternate]) -> None:
        """On the thread that traces; the other one stands still."""
        sp = _stack_pointer(tid)
        at = (sp - BELOW_SP_BYTES) & ~15
        start, end = own_stack
        if start <= at < sp < end and not self._is_over and not self._is_replaced():
            alternate = _alternate_stack(self._hold.pid, tid, at, self._instruction)
            found.extend([] if alternate is None else [alternate])

    def end(self) -> None:
        """Ask no more."""
        self._is_over = True
        if self._asking.acquire(timeout=END_LIMIT_S):  # one that is under way
            self._asking.release()


def _look(pid: int, tid: int, stacks: Stacks, instruction: int, scratch_addr: int) -> None:
    """Note the stack pointer of a thread that stands still, and its alternate stack, once."""
    sp = _stack_pointer(tid)
    if not sp:
        return
    stacks.sps.append(sp)
    if stacks.alternate_bytes < 0 and instruction:
        found = _alternate_stack(pid, tid, scratch_addr, instruction)
        if found is not None:
            stacks.alternate_start, stacks.alternate_bytes = found


def _stack_pointer(tid: int) -> int:
    registers = ptrace.saved(tid, ptrace.NT_PRSTATUS, REGISTERS_BYTES)
    if registers is None:
        return 0
    words = struct.unpack(f"<{REGISTERS_BYTES // 8}Q", registers.raw)
    sp: int = words[RSP]
    return sp


def _alternate_stack(pid: int, tid: int, scratch_addr: int, instruction: int) -> Alternate | None:
    """Have a thread that stands still tell its alternate stack; None where that might harm it."""
    status = status_fields(pid, tid)
    # A seccomp filter might kill the thread for a call that its program does not make; a fault
    # whose signal it has not taken yet would be lost, and so would a critical section's end.
    if status.get(b"Seccomp") != b"0" or int(status.get(b"SigPnd", b"1"), 16):
        return None
    if ptrace.is_in_critical_section(tid):
        return None
    if remote_syscall.execute(tid, SYS_SIGALTSTACK, 0, scratch_addr, instruction=instruction) != 0:
        return None
    with contextlib.suppress(OSError), open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
        memory.seek(scratch_addr)
        start, _, _, size_bytes = STACK_T.unpack(memory.read(STACK_T.size))
        return Alternate(start, size_bytes)
    return None


def _own_tid(tid: int, status: dict[bytes, bytes]) -> int:
    """The number of a thread in the innermost pid namespace that it is in. proc(5), ``NSpid``."""
    numbers = status.get(b"NSpid", b"").split()
    return int(numbers[-1]) if numbers else tid


def _computing(pid: int) -> dict[int, bytes]:
    """The threads that have used ``COMPUTED_NS`` without waiting for anything → ``_waits``."""
    before = {tid: (_waits(status_fields(pid, tid)), _cpu_ns(pid, tid)) for tid in tasks(pid)}
    found: dict[int, bytes] = {}
    for _ in range(WATCHES):
        before = {
            tid: (waits, cpu_ns)
            for tid, (waits, cpu_ns) in before.items()
            if tid not in found and waits and waits == _waits(status_fields(pid, tid))
        }
        if not before:
            break
        time.sleep(WATCH_S)
        found |= {
            tid: waits
            for tid, (waits, cpu_ns) in before.items()
            if _cpu_ns(pid, tid) - cpu_ns >= COMPUTED_NS
            and waits == _waits(status_fields(pid, tid))
        }
    return found


def _cpu_ns(pid: int, tid: int) -> int:
    """The CPU time that a thread has used. proc(5), ``schedstat``."""
    with (
        contextlib.suppress(OSError, ValueError, IndexError),
        open(f"/proc/{pid}/task/{tid}/schedstat", "rb") as file,
    ):
        return int(file.read().split()[0])
    return 0


def _waits(status: dict[bytes, bytes]) -> bytes:
    """How often a thread has waited, in digits; empty if it is not running. proc(5), ``status``."""
    is_running = status.get(b"State", b"").startswith(b"R")
    return status.get(b"voluntary_ctxt_switches", b"") if is_running else b""
