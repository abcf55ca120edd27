"""The threads of a process, and what system call each waits in. proc(5), ``task``, ``syscall``."""

from __future__ import annotations

import os
from dataclasses import dataclass


@dataclass(frozen=True)
class Call:
    """What a thread that does not run waits in."""

    number: int = -1  # see ``syscalls``; -1: in no system call, for a page or a CPU
    arguments: tuple[int, ...] = ()  # six, none with number -1
    sp: int = 0  # runtime_addr
    pc: int = 0  # runtime_addr


def tasks(pid: int) -> frozenset[int]:
    """The threads of a process; none when it is gone.

    Raises:
        OSError: nobody can tell.
    """
    try:
        return frozenset(int(name) for name in os.listdir(f"/proc/{pid}/task"))
    except (FileNotFoundError, ProcessLookupError):
        return frozenset()


def read_call(pid: int, tid: int, proc: str = "/proc") -> Call | None:
    """What a thread waits in, None while it runs.

    Raises:
        OSError: it is gone, or we may not know.
    """
    with open(f"{proc}/{pid}/task/{tid}/syscall") as file:
        fields = file.read().split()
    if len(fields) < 3:  # "running"
        return None
    number, *arguments, sp, pc = (int(field, 0) for field in fields)
    return Call(number, tuple(arguments), sp, pc)


def system_call(pid: int, tid: int) -> Call:
    """The same; one with number -1, too, when it runs or is gone."""
    try:
        return read_call(pid, tid) or Call()
    except OSError:
        return Call()
