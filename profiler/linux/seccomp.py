"""What a seccomp filter would do to the system calls that an attach makes in the target.

A filter is a small program of classic BPF that the kernel runs before every system call; it decides
by number and arguments. ``decide`` runs it for each call of ``seccomp_calls`` and says which of
them would kill the process and which would fail. Pure: ``seccomp_filters`` reads the programs.

Source: Documentation/userspace-api/seccomp_filter.rst, <linux/seccomp.h>, <linux/filter.h>,
seccomp(2).
"""

from __future__ import annotations

import errno
import struct
from collections.abc import Sequence
from dataclasses import dataclass

from .arch_x86_64 import AUDIT_ARCH
from .seccomp_calls import DIRECT, FRIDA, MASK, MUST_SUCCEED, OPTIONAL, POINTER, THREADS, Calls
from .syscalls import syscall_number

# One instruction: struct sock_filter {u16 code; u8 jt; u8 jf; u32 k}.
INSTRUCTION = struct.Struct("=HBBI")
# struct seccomp_data {int nr; u32 arch; u64 instruction_pointer; u64 args[6]}
_DATA = struct.Struct("=iIQ6Q")
# The kernel takes no longer program (BPF_MAXINSNS), and jumps only lead forward: it always ends.
MAX_INSTRUCTIONS = 4096

# Actions, the most drastic first when compared as signed numbers.
KILL_PROCESS, KILL_THREAD, TRAP, ERRNO = 0x80000000, 0x00000000, 0x00030000, 0x00050000
USER_NOTIFICATION, TRACE, LOG, ALLOW = 0x7FC00000, 0x7FF00000, 0x7FFC0000, 0x7FFF0000
ACTION_MASK = 0xFFFF0000
DEADLY = (KILL_PROCESS, KILL_THREAD, TRAP)
FAILING = (ERRNO, TRACE)  # without a tracer TRACE is ENOSYS

# glibc continues with clone when told that there is no clone3, and only then.
_NO_CLONE3 = ERRNO | errno.ENOSYS


@dataclass(frozen=True)
class Decision:
    """What would become of an attach."""

    deadly: tuple[str, ...] = ()  # calls that kill the thread or the process
    failing: tuple[str, ...] = ()  # calls without which the attach fails
    missing: tuple[str, ...] = ()  # what does not work without the others, in words


def decide(programs: Sequence[bytes], *, is_main_thread: bool, is_direct: bool = True) -> Decision:
    """Run all filters of a thread for all calls that it, or a thread born of it, would make.

    Args:
        programs: the filters, each a row of ``INSTRUCTION``; the kernel runs them all.
        is_main_thread: our thread inherits its filters; others only run our signal handler.
        is_direct: the way in; else Frida's.

    Raises:
        ValueError: a program that is none.
    """
    calls = DIRECT if is_direct else FRIDA
    names = calls if is_main_thread else THREADS
    decoded = [list(INSTRUCTION.iter_unpack(program)) for program in programs]
    deadly, failing, missing = [], [], []
    for name in names:
        variants = calls.get(name, ((),))
        answers = (_run(program, name, args) for program in decoded for args in variants)
        answer = min(answers, key=_severity, default=ALLOW)
        if name == "clone3" and answer == _NO_CLONE3:
            continue
        action = answer & ACTION_MASK
        if action in DEADLY or (action in FAILING and name in MUST_SUCCEED):
            deadly.append(name)
        elif action in FAILING and name not in OPTIONAL:
            failing.append(name)
        elif action in FAILING and OPTIONAL[name]:
            missing.append(OPTIONAL[name])
    return Decision(tuple(deadly), tuple(failing), tuple(missing))


def allows(programs: Sequence[bytes], calls: Calls) -> bool:
    """Whether all filters of a thread let it make these calls.

    Args:
        programs: as for ``decide``.
        calls: such as ``seccomp_calls.TIMERS``.

    Raises:
        ValueError: a program that is none.
    """
    decoded = [list(INSTRUCTION.iter_unpack(program)) for program in programs]
    return all(
        _run(program, name, args) & ACTION_MASK in (ALLOW, LOG)
        for program in decoded
        for name, variants in calls.items()
        for args in variants
    )


def _severity(answer: int) -> int:
    action = answer & ACTION_MASK
    return action - (1 << 32) if action & 0x80000000 else action


def _run(program: Sequence[tuple[int, int, int, int]], name: str, args: tuple[int, ...]) -> int:
    number = syscall_number(name)
    padded = (*args, *(0,) * (6 - len(args)))
    data = _DATA.pack(number, AUDIT_ARCH, POINTER, *padded)
    return run(program, data)


def run(program: Sequence[tuple[int, int, int, int]], data: bytes) -> int:
    """Run one filter, as the kernel does.

    Args:
        program: (code, jt, jf, k) of each instruction.
        data: struct seccomp_data.

    Returns:
        the filter's answer: action and data of it.

    Raises:
        ValueError: an instruction that a filter must not have, or an end without an answer.
    """
    if len(program) > MAX_INSTRUCTIONS:
        raise ValueError(f"a filter of {len(program)} instructions")
    a = x = 0
    memory = [0] * 16
    at = 0
    while 0 <= at < len(program):
        code, jump_true, jump_false, k = program[at]
        at += 1
        kind = code & 7
        operand = x if code & 8 else k
        if kind in (0, 1):  # BPF_LD, BPF_LDX: a word of the data, a constant, memory, the length
            value = _load(code, k, data, memory)
            a, x = (value, x) if kind == 0 else (a, value)
        elif kind in (2, 3):  # BPF_ST, BPF_STX
            memory[k & 15] = a if kind == 2 else x
        elif kind == 4:  # BPF_ALU
            a = _calculate(code & 0xF0, a, operand)
        elif kind == 5:  # BPF_JMP
            if code & 0xF0 == 0:
                at += k
            else:
                at += jump_true if _compare(code & 0xF0, a, operand) else jump_false
        elif kind == 6:  # BPF_RET: a constant, or A
            return a if code & 0x18 == 0x10 else k
        elif code & 0xF8 == 0:  # BPF_MISC | BPF_TAX
            x = a
        else:  # BPF_TXA
            a = x
    raise ValueError("a filter without an answer")


def _load(code: int, k: int, data: bytes, memory: Sequence[int]) -> int:
    mode = code & 0xE0
    if mode == 0x00:  # BPF_IMM
        return k
    if mode == 0x60:  # BPF_MEM
        return memory[k & 15]
    if mode == 0x80:  # BPF_LEN
        return len(data)
    if mode == 0x20 and k % 4 == 0 and k + 4 <= len(data):  # BPF_ABS
        return int.from_bytes(data[k : k + 4], "little")
    raise ValueError(f"instruction {code:#x} in a filter")


def _calculate(operation: int, a: int, operand: int) -> int:
    if operation in (0x30, 0x90) and operand == 0:
        raise ValueError("a filter that divides by zero")
    result = {
        0x00: lambda: a + operand,
        0x10: lambda: a - operand,
        0x20: lambda: a * operand,
        0x30: lambda: a // operand,
        0x40: lambda: a | operand,
        0x50: lambda: a & operand,
        0x60: lambda: a << (operand & 31),
        0x70: lambda: a >> (operand & 31),
        0x80: lambda: -a,
        0x90: lambda: a % operand,
        0xA0: lambda: a ^ operand,
    }.get(operation)
    if result is None:
        raise ValueError(f"operation {operation:#x} in a filter")
    return result() & MASK


def _compare(condition: int, a: int, operand: int) -> bool:
    if condition == 0x10:
        return a == operand
    if condition == 0x20:
        return a > operand
    if condition == 0x30:
        return a >= operand
    if condition == 0x40:
        return bool(a & operand)
    raise ValueError(f"condition {condition:#x} in a filter")


def describe(names: Sequence[str]) -> str:
    """A few names for a message."""
    shown = ", ".join(names[:6])
    return shown + (f" and {len(names) - 6} more" if len(names) > 6 else "")
