"""Names and numbers of the system calls of Linux on this processor."""

from __future__ import annotations

from .arch_x86_64 import SYSCALL_NAMES

_NUMBERS = {name: number for number, name in SYSCALL_NAMES.items()}

# In place of a number: in the kernel, by a call that is not known.
KERNEL = 0x7FFF
# In place of a number: in no call, but runnable and without a CPU.
QUEUED = 0x7FFE
# In place of a number: waits for an interpreter's lock (agent/abi.h: SYSNO_LOCK).
LOCK = 0x7FFD


def syscall_name(sysno: int) -> str:
    """The name of a system call, ``syscall_NUMBER`` for one that is not in the table."""
    if sysno == KERNEL:
        return "kernel"
    if sysno == QUEUED:
        return "waiting for a CPU"
    if sysno == LOCK:
        return "waiting for the GIL"
    return SYSCALL_NAMES.get(sysno, f"syscall_{sysno}")


def has_syscall(name: str) -> bool:
    """Return True if this processor has a system call of that name."""
    return name in _NUMBERS


def syscall_number(name: str) -> int:
    """The number of a system call of the table.

    Raises:
        KeyError: there is none of that name.
    """
    return _NUMBERS[name]


def syscall_numbers(*names: str) -> tuple[int, ...]:
    """The numbers of several system calls, in this order; as ``syscall_number``."""
    return tuple(_NUMBERS[name] for name in names)
