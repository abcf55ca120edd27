"""Find out which stacks the threads that compute are on, before they get a first signal.

The kernel lays a signal's frame on the stack that a thread is on just then. That must be a stack
with room: memory below a coroutine's small stack belongs to somebody else. What the kernel tells of
a thread that runs is nothing, so at the end of the attach each thread that computes is stopped some
times, for less than 0.1 ms, and asked where its stack pointer stands; once also for its alternate
signal stack, by a system call that it makes for us. The agent draws the conclusions
(``agent/process/stack_headroom.c``).

Threads that wait now and then are left alone then: a stop could end such a wait. Where the agent
has to know the alternate stack of one, it asks for it later, and the thread is stopped once, when
it runs (``AlternateStacks``). ptrace(2), sigaltstack(2), <asm-generic/signal.h>.
"""

from __future__ import annotations

import contextlib
import functools
import struct
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass

from ..linux import ptrace, remote_syscall
from ..linux.arch_x86_64 import REGISTERS_BYTES, RSP
from ..linux.syscalls import syscall_number
from ..linux.tasks import tasks
from .fork_hold import ForkHold

# A thread that spends a quarter of its time on other stacks is found out 999 times of 1 000.
ROUNDS = 24
ROUND_INTERVAL_S = 0.0007
# Looking takes this long at the most: on a busy machine each thread stops when its turn comes.
LIMIT_S = 1.0
# A thread computes that has used so much CPU time without waiting for anything …
COMPUTED_NS = 2_000_000
# … while it was watched, for so long at the most where it has to wait for a CPU.
WATCH_S = 0.005
WATCHES = 20
THREADS_MAX = 8
# How long to wait for a thread to run: the agent asks again.
RUN_LIMIT_S = 0.02
RUN_INTERVAL_S = 0.0002
SYS_SIGALTSTACK = syscall_number("sigaltstack")
STACK_T = struct.Struct("<QiiQ")  # start, flags, padding, size


@dataclass
class Stacks:
    """The stacks of one thread: runtime addresses and bytes."""

    tid: int  # as its own process knows it: in its pid namespace
    sps: list[int]  # where the stack pointer stood
    alternate_start: int = 0
    alternate_bytes: int = -1  # 0: there is none, -1: unknown

    def as_packet(self) -> dict[str, object]:
        """What the agent is told."""
        return asdict(self)


def find(hold: ForkHold, scratch_addr: int) -> list[Stacks]:
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
            status = _status(pid, tid)
            if not waits or _waits(status) != waits:  # a stop would end its next wait
                del computing[tid]
                continue
            stacks = found.setdefault(tid, Stacks(_own_tid(tid, status), []))
            look = functools.partial(_look, pid, tid, stacks, instruction, scratch_addr)
            hold.look(tid, look)
            computing[tid] = _waits(_status(pid, tid))  # the stop counts as one
        if computing:
            time.sleep(ROUND_INTERVAL_S)
    return list(found.values())


class AlternateStacks:
    """Tells where the alternate stacks of one process's threads are. Any thread may call it.

    Args:
        hold: has a thread of the process stopped for a moment.
        is_replaced: whether the process is another program by now, whose threads are not asked.
    """

    def __init__(self, hold: ForkHold, is_replaced: Callable[[], bool]) -> None:
        self._hold = hold
        self._is_replaced = is_replaced
        self._asking = threading.Lock()
        self._is_over = False

    def find(self, tid: int, scratch_addr: int) -> tuple[int, int] | None:
        """Return runtime_addr and bytes of a thread's alternate stack, 0 bytes for none.

        Args:
            tid: its number as we know it.
            scratch_addr: runtime_addr of ``STACK_T.size`` bytes that the agent keeps for this.

        Returns:
            None if it did not run in time, or cannot be asked.
        """
        pid = self._hold.pid
        with self._asking:
            if self._is_over or self._is_replaced():
                return None
            instruction = remote_syscall.find_syscall(pid)
            stacks = Stacks(tid, [])
            end_s = time.monotonic() + RUN_LIMIT_S
            while instruction and time.monotonic() < end_s:
                if _waits(_status(pid, tid)):  # it runs
                    look = functools.partial(_look, pid, tid, stacks, instruction, scratch_addr)
                    self._hold.look(tid, look)
                    if stacks.alternate_bytes >= 0:
                        return stacks.alternate_start, stacks.alternate_bytes
                time.sleep(RUN_INTERVAL_S)
            return None

    def end(self) -> None:
        """Ask no more: the memory is about to go."""
        with self._asking:
            self._is_over = True


def _look(pid: int, tid: int, stacks: Stacks, instruction: int, scratch_addr: int) -> None:
    """Note the stack pointer of a thread that stands still, and its alternate stack, once."""
    registers = ptrace.saved(tid, ptrace.NT_PRSTATUS, REGISTERS_BYTES)
    if registers is None:
        return
    words = struct.unpack(f"<{REGISTERS_BYTES // 8}Q", registers.raw)
    stacks.sps.append(words[RSP])
    if stacks.alternate_bytes >= 0 or not instruction:
        return
    status = _status(pid, tid)
    # A seccomp filter might kill the thread for a call that its program does not make; a fault
    # whose signal it has not taken yet would be lost, and so would a critical section's end.
    if status.get(b"Seccomp") != b"0" or int(status.get(b"SigPnd", b"1"), 16):
        return
    if ptrace.is_in_critical_section(tid):
        return
    if remote_syscall.execute(tid, SYS_SIGALTSTACK, 0, scratch_addr, instruction=instruction) != 0:
        return
    with contextlib.suppress(OSError), open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
        memory.seek(scratch_addr)
        start, _, _, size_bytes = STACK_T.unpack(memory.read(STACK_T.size))
        stacks.alternate_start, stacks.alternate_bytes = start, size_bytes


def _own_tid(tid: int, status: dict[bytes, bytes]) -> int:
    """The number of a thread in the innermost pid namespace that it is in. proc(5), ``NSpid``."""
    numbers = status.get(b"NSpid", b"").split()
    return int(numbers[-1]) if numbers else tid


def _computing(pid: int) -> dict[int, bytes]:
    """The threads that have used ``COMPUTED_NS`` without waiting for anything → ``_waits``."""
    before = {tid: (_waits(_status(pid, tid)), _cpu_ns(pid, tid)) for tid in tasks(pid)}
    found: dict[int, bytes] = {}
    for _ in range(WATCHES):
        before = {
            tid: (waits, cpu_ns)
            for tid, (waits, cpu_ns) in before.items()
            if tid not in found and waits and waits == _waits(_status(pid, tid))
        }
        if not before:
            break
        time.sleep(WATCH_S)
        found |= {
            tid: waits
            for tid, (waits, cpu_ns) in before.items()
            if _cpu_ns(pid, tid) - cpu_ns >= COMPUTED_NS and waits == _waits(_status(pid, tid))
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


def _status(pid: int, tid: int) -> dict[bytes, bytes]:
    with contextlib.suppress(OSError), open(f"/proc/{pid}/task/{tid}/status", "rb") as file:
        pairs = (line.partition(b":") for line in file)
        return {name: value.strip() for name, _, value in pairs}
    return {}
