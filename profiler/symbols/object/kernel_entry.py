"""System calls by the code at a leaf's address: which one a thread is in that was met there.

A thread that is met while it runs in the kernel is seen with the address behind its ``syscall``
instruction, or with that of the instruction if the kernel is about to begin the call again. What it
runs is the kernel's. The number of the call stands in the instruction before, as a rule; where it
was put into the register earlier, the thread is just in the kernel.

Bytes can look like the instruction and be the end of a longer one. They are believed if the number
stands before them, or the test for an error behind them.

Source: Intel SDM, SYSCALL; glibc, sysdeps/unix/sysv/linux/x86_64/sysdep.h.
"""

from __future__ import annotations

import re

from ...linux.arch_x86_64 import SYSCALL
from ...linux.syscalls import KERNEL

BEFORE_BYTES, CODE_BYTES = 7, 15  # what is needed: before the address, and in all
_MAX_NUMBER = 1 << 12

_NUMBER_BEFORE = re.compile(rb"(?:\xb8(.{4})|\x31\xc0)\Z", re.DOTALL)  # mov $n,%eax; xor %eax,%eax
_TEST_FOR_ERROR = re.compile(rb"\x48?\x3d[\0\x01]\xf0\xff\xff")  # cmp $-4095,%rax or $-4096


def call_number(code: bytes) -> int | None:
    """The system call that a thread is in, ``KERNEL`` if it is not known which, ``None`` if none.

    Args:
        code: ``CODE_BYTES`` from ``BEFORE_BYTES`` before the thread's address on.
    """
    if len(code) != CODE_BYTES:
        return None
    at = next((i for i in (BEFORE_BYTES - 2, BEFORE_BYTES) if code[i : i + 2] == SYSCALL), None)
    if at is None:
        return None
    number = _NUMBER_BEFORE.search(code[:at])
    if number:
        found = int.from_bytes(number[1] or b"", "little")
        return found if found < _MAX_NUMBER else None
    return KERNEL if _TEST_FOR_ERROR.match(code, at + 2) else None
