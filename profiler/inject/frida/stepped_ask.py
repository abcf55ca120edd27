"""Have a thread of the target tell its alternate signal stack where there is no stub of ours: it
makes a single step in the vDSO while it is traced.

Unlike the direct way's, a target that computes dies if the host is killed within that step, some
0.2 ms for each thread that is asked. sigaltstack(2), ``remote_syscall``.
"""

from __future__ import annotations

from ...linux import ptrace, remote_syscall
from ...linux.syscalls import syscall_number
from ..link.alternate import REFUSED, Alternate, Answer
from ..link.stopper import Stopper
from ..link.target_memory import TargetMemory

SYS_SIGALTSTACK = syscall_number("sigaltstack")


def ask(stopper: Stopper, memory: TargetMemory, boot_addr: int, tid: int) -> Alternate | None:
    """See ``Injector.ask_alternate``.

    Args:
        stopper: of the target's threads.
        memory: of the target.
        boot_addr: runtime_addr of ``struct boot``, where the answer is written.
        tid: the thread.
    """
    instruction = remote_syscall.find_syscall(memory.pid)
    if not instruction:
        return REFUSED
    results: list[int | None] = []
    answer = Answer(memory, boot_addr)

    def step() -> None:
        if not ptrace.is_in_critical_section(tid):
            call = (SYS_SIGALTSTACK, 0, answer.addr)
            results.append(remote_syscall.execute(tid, *call, instruction=instruction))

    stopper.look(tid, step)
    return answer.read() if results == [0] else None
