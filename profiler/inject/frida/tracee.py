"""A thread of a target while Frida traces it: what it came with, and what Frida is told instead.
How far Frida has got with it is in ``attach_state``.

Only on the thread that traces.
"""

from __future__ import annotations

import ctypes
import os
from dataclasses import dataclass, field

from ...linux import eintr_restart, ptrace
from ...linux.arch_x86_64 import RDI, REGISTERS_BYTES, RIP, RSP
from ...linux.ptrace import (
    NT_PRSTATUS,
    NT_X86_XSTATE,
    PTRACE_GETREGS,
    PTRACE_GETREGSET,
    PTRACE_POKEDATA,
    PTRACE_SETREGS,
    PTRACE_SETREGSET,
    XSTATE_BYTES_MAX,
)
from . import bootstrap_code, fault_signals, shown_stack
from .attach_events import Stop
from .bootstrap_code import CodeSwap
from .loader import Loader

Words = ctypes.Array[ctypes.c_uint64]  # struct user_regs_struct
GET_REGISTERS = (PTRACE_GETREGS, PTRACE_GETREGSET)
SET_REGISTERS = (PTRACE_SETREGS, PTRACE_SETREGSET)


@dataclass
class Tracee:
    """A thread while Frida traces it."""

    tid: int
    registers: ptrace.Bytes | None = None  # as it came: general …
    vector_registers: ptrace.Bytes | None = None  # … and all others
    mask: int | None = None  # the signals it blocks: bit n - 1 is signal n
    ignored: fault_signals.Ignored | None = None
    pending: fault_signals.Pending | None = None
    shown: bytes = b""  # its general registers as Frida knows them
    has_called: bool = False
    is_alone: bool | None = None  # do the other threads go on meanwhile? None: nobody has asked
    code_swap: CodeSwap | None = None
    loader: Loader | None = None  # what the last call has started
    tasks_before: frozenset[int] = field(default_factory=frozenset)  # of its process

    def save(self) -> None:
        """Note what it comes with, and have it block the signals in ``faults.MASK`` and no others;
        it has just stopped."""
        eintr_restart.prepare(self.tid)
        self.registers = ptrace.saved(self.tid, NT_PRSTATUS, REGISTERS_BYTES)
        self.vector_registers = ptrace.saved(self.tid, NT_X86_XSTATE, XSTATE_BYTES_MAX)
        self.mask = ptrace.blocked(self.tid)
        self.ignored, self.pending = (
            fault_signals.Ignored.find(self.tid),
            fault_signals.Pending.find(self.tid),
        )
        if self.mask is not None:
            ptrace.block(self.tid, fault_signals.MASK)

    def show(self, request: int, where: int | None, data: int) -> None:
        """Change what Frida has just been given as its registers."""
        registers = registers_at(request, where, data)
        if registers is not None:
            registers[RSP] = shown_stack.shown(registers[RSP])
            self.shown = self.shown or bytes(registers)

    def stop(self, status: int, is_calling: bool) -> Stop:
        """What a status of waitpid(2) means, 0 for none; takes a signal that others have sent while
        the thread runs a function. It gets that one afterwards.
        """
        if not os.WIFSTOPPED(status):
            return Stop.ENDED
        if is_calling and ptrace.is_stop_of_process(status):
            return Stop.BY_PROCESS
        if is_calling and self.pending and self.pending.take(ptrace.signal_of(status)):
            return Stop.BY_OTHERS
        return Stop.STOPPED

    def place(self, request: int, where: int) -> int | None:
        """Where a word is that Frida wants to read or write, runtime_addr; None for nowhere.

        Raises:
            OSError: there is no memory for that.
        """
        where = shown_stack.real(where)
        is_first = not self.has_called and self.code_swap is None
        if request == PTRACE_POKEDATA and is_first and self.leaves_others_alone():
            self.code_swap = bootstrap_code.begin(self.tid, where)
        return where if self.code_swap is None else self.code_swap.real(where)

    def leaves_others_alone(self) -> bool:
        """Can the other threads of the process go on while Frida takes its first steps?"""
        if self.is_alone is None:
            self.is_alone = bootstrap_code.can_begin(self.tid)
        return self.is_alone

    def make_real(self, registers: Words) -> None:
        """Change the registers of a call that Frida is about to set into those that are meant."""
        registers[RSP] = shown_stack.real(registers[RSP])
        if not self.has_called:  # with something on the stack, if it is not mmap
            registers[RDI] = shown_stack.real(registers[RDI])
        if self.code_swap is not None:
            function_addr = self.code_swap.real(registers[RIP])
            if function_addr == registers[RIP]:  # the first steps are done
                self.code_swap.end(self.tid)
            registers[RIP] = function_addr or registers[RIP]

    def restore(self) -> None:
        """Give back what Frida does not, right before the thread is released."""
        if self.code_swap is not None:
            self.code_swap.end(self.tid)
        if self.vector_registers is not None:
            ptrace.transfer(PTRACE_SETREGSET, self.tid, NT_X86_XSTATE, self.vector_registers)
        if self.ignored is not None:
            self.ignored.restore()
        if self.mask is not None:
            ptrace.block(self.tid, self.mask)
        if self.pending is not None:
            self.pending.send_again()

    def set_own(self) -> bool:
        """Give it back its general registers; False if it does not stand still."""
        if self.registers is None:
            eintr_restart.prepare(self.tid)
        registers = self.registers or ptrace.saved(self.tid, NT_PRSTATUS, REGISTERS_BYTES)
        return registers is not None and bool(
            ptrace.transfer(PTRACE_SETREGSET, self.tid, NT_PRSTATUS, registers)
        )

    def put_back(self) -> bool:
        """Give it back all that it came with; False if it does not stand still."""
        if not self.set_own():
            return False
        self.restore()
        return True


def registers_at(request: int, kind: int | None, data: int) -> Words | None:
    """Where Frida has, or wants, the general registers of a thread; None if it is about others."""
    if request in (PTRACE_GETREGSET, PTRACE_SETREGSET):
        vector = ptrace.Vector.from_address(data)
        if kind != NT_PRSTATUS or vector.size_bytes < REGISTERS_BYTES or not vector.base:
            return None
        data = vector.base
    return (ctypes.c_uint64 * (REGISTERS_BYTES // 8)).from_address(data)
