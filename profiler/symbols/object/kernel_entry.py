"""Find the system call in which a thread is, from the code at its leaf's address.

A thread in the kernel is seen with the address after its ``syscall`` instruction, or with that of
the instruction itself if the kernel is about to restart the call. The code that it runs is the
kernel's. Usually the instruction before sets the number of the call, or one a little earlier with
nothing but loads of arguments in between. Otherwise we only know that the thread is in the kernel:
``syscall(2)`` takes the number from its caller.

The bytes of ``syscall`` may also be the end of a longer instruction. We accept them only if the
number precedes them, or the test for an error follows.

Source: Intel SDM, SYSCALL; glibc, sysdeps/unix/sysv/linux/x86_64/sysdep.h.
"""

from __future__ import annotations

import functools
import re
from typing import TYPE_CHECKING

from ...linux.arch_x86_64 import SYSCALL
from ...linux.syscalls import KERNEL

if TYPE_CHECKING:
    import capstone

BEFORE_BYTES, CODE_BYTES = 64, 72  # bytes of code needed: before the address, and in total
_MAX_NUMBER = 1 << 12

_NUMBER_BEFORE = re.compile(rb"(?:\xb8(.{4})|\x31\xc0)\Z", re.DOTALL)  # mov $n,%eax; xor %eax,%eax
_SETS_NUMBER = re.compile(rb"\xb8.{4}|\x31\xc0", re.DOTALL)
_LOADS = frozenset(("mov", "movabs", "movsxd", "movzx", "lea", "xor", "nop"))
_NUMBER_REGISTERS = re.compile(r"[re]?ax\b|a[lh]\b")  # as the first operand
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
    if not _TEST_FOR_ERROR.match(code, at + 2):
        return None
    return _number_earlier(code[:at])


def _number_earlier(code: bytes) -> int:
    """Return the number that is set before the last few instructions; ``KERNEL`` if none is."""
    for match in reversed(list(_SETS_NUMBER.finditer(code))):
        found = int.from_bytes(match[0][1:], "little") if len(match[0]) > 2 else 0
        if found < _MAX_NUMBER and _are_loads(code[match.end() :]):
            return found
    return KERNEL


def _are_loads(code: bytes) -> bool:
    """Tell whether code does nothing but load registers, and not that of the number."""
    at = 0
    for _, size, mnemonic, operands in _decoder().disasm_lite(code, 0):
        if mnemonic not in _LOADS or _NUMBER_REGISTERS.match(operands):
            return False
        at += size
    return at == len(code)


@functools.cache
def _decoder() -> capstone.Cs:
    import capstone

    return capstone.Cs(capstone.CS_ARCH_X86, capstone.CS_MODE_64)
