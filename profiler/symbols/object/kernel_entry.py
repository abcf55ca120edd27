"""Find the system call in which a thread is, from the code at its leaf's address.

A thread in the kernel is seen with the address after its ``syscall`` instruction, or with that of
the instruction itself if the kernel is about to restart the call. The code that it runs is the
kernel's. Usually the instruction before sets the number of the call. If the register was set
earlier, we only know that the thread is in the kernel.

The bytes of ``syscall`` may also be the end of a longer instruction. We accept them only if the
number precedes them, or the test for an error follows.

Source: Intel SDM, SYSCALL; glibc, sysdeps/unix/sysv/linux/x86_64/sysdep.h.
"""

from __future__ import annotations

import re

from ...linux.arch_x86_64 import SYSCALL
from ...linux.syscalls import KERNEL

BEFORE_BYTES, CODE_BYTES = 7, 15  # bytes of code needed: before the address, and in total
_MAX_NUMBER = 1 << 12

_NUMBER_BEFORE = re.compile(rb"(?:\xb8(.{4})|\x31\xc0)\Z", re.DOTALL)  # mov $n,%eax; xor %eax,%eax
_TEST_FOR_ERROR = re.compile(rb"\x48?\x3d[\0\x01]\xf0\xff\xff")  # cmp $-4095,%rax or $-4096


def call_number(code: bytes) -> int | None:
    """Return the number of the system call in which a thread is.

    Return ``KERNEL`` if the number is unknown, ``None`` if the thread is in no system call.

    Args:
        code: ``CODE_BYTES`` of code, starting ``BEFORE_BYTES`` before the thread's address.
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
