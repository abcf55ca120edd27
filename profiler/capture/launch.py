"""Start a program and hold it at its entry point until the profiler is attached (``record --
CMD``).

We trace the child from exec up to its entry point (auxv AT_ENTRY). By then the dynamic loader has
mapped libc, which Frida needs, and no code of the program has run. We replace the first two bytes
of its code by a jump to itself and detach from the child, because Frida has to trace it next.
``release`` restores the two bytes, and the program begins. Nowhere else do we change code, and here
only in a process that we started. ptrace(2), getauxval(3), System V ABI AMD64 3.4.1.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import struct
import subprocess
from collections.abc import Sequence

from ..errors import CannotAttachError, UsageError
from ..linux import executable, ptrace
from ..linux.arch_x86_64 import RIP
from ..linux.ptrace import (
    PTRACE_CONT,
    PTRACE_DETACH,
    PTRACE_O_EXITKILL,
    PTRACE_POKEUSER,
    PTRACE_SETOPTIONS,
    PTRACE_TRACEME,
)

PR_SET_PTRACER = 0x59616D61
RIP_IN_USER = RIP * 8  # the registers stand first in struct user: sys/user.h

AT_NULL = 0
AT_ENTRY = 9

BREAKPOINT = b"\xcc"  # int3
JUMP_TO_SELF = b"\xeb\xfe"  # jmp .

_libc = ctypes.CDLL(None, use_errno=True)


class Launched:
    """A child held at its entry point. It inherits our standard input, output and error."""

    def __init__(self, child: subprocess.Popen[bytes], entry: int, code: bytes) -> None:
        self._child = child
        self._entry = entry
        self._code = code
        self.pid = child.pid

    def release(self) -> None:
        """Let the program begin. Idempotent."""
        if self._code:
            # The program may have been killed already.
            with contextlib.suppress(OSError):
                _write(self.pid, self._entry, self._code)
            self._code = b""

    def wait(self) -> int:
        """Wait for the program's end; return its exit code, or 128 + n after signal n (as sh)."""
        try:
            _, status = os.waitpid(self.pid, 0)
            code = os.waitstatus_to_exitcode(status)
        except ChildProcessError:  # ``terminate`` has reaped it
            code = self._child.returncode or 0
        self._child.returncode = code
        return 128 - code if code < 0 else code

    def kill(self) -> None:
        """Kill the program. Does nothing after ``wait`` or ``terminate``."""
        with contextlib.suppress(ProcessLookupError):
            self._child.send_signal(signal.SIGKILL)

    def terminate(self) -> None:
        """Kill the program and reap it."""
        self.kill()
        self._child.wait()


def launch(
    argv: Sequence[str], *, stdout: int | None = None, ignored: Sequence[signal.Signals] = ()
) -> Launched:
    """Start ``argv`` and hold it at its entry point.

    Args:
        argv: the program (searched on PATH) and its arguments.
        stdout: a descriptor for its standard output; None to inherit ours.
        ignored: signals that it begins with ignored, as we have; those that we handle it would not.

    Raises:
        UsageError: the program cannot be run, or the kernel does not let us trace it.
        CannotAttachError: it ended before its entry point, or could not be held there.
    """

    def begin() -> None:
        for number in ignored:
            signal.signal(number, signal.SIG_IGN)
        _trace_me()

    try:
        child = subprocess.Popen(list(argv), stdout=stdout, preexec_fn=begin)
    except (OSError, subprocess.SubprocessError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it cannot be traced"
        raise UsageError(
            f"cannot run {argv[0]}: {reason}", "give the program and its arguments after --"
        ) from error
    try:
        _wait_for_stop(child, argv[0], signal.SIGTRAP)  # the stop after exec
        _ptrace(PTRACE_SETOPTIONS, child.pid, 0, PTRACE_O_EXITKILL)
        entry = _entry_point(child.pid)
        if entry is None:
            # A 32-bit program: preflight will refuse it, so we do not hold it.
            _ptrace(PTRACE_DETACH, child.pid, 0, 0)
            return Launched(child, 0, b"")
        code = _read(child.pid, entry, len(JUMP_TO_SELF))
        _write(child.pid, entry, BREAKPOINT)
        _ptrace(PTRACE_CONT, child.pid, 0, 0)
        _wait_for_stop(child, argv[0], signal.SIGTRAP)
        _write(child.pid, entry, JUMP_TO_SELF)
        _ptrace(PTRACE_POKEUSER, child.pid, RIP_IN_USER, entry)
        _ptrace(PTRACE_DETACH, child.pid, 0, 0)
        return Launched(child, entry, code)
    except OSError as error:
        child.kill()
        child.wait()
        raise CannotAttachError(
            f"{argv[0]} could not be held at its start: {error.strerror}",
            "start it by itself and attach to its pid",
        ) from error


def _trace_me() -> None:
    """Make the child traceable by us; runs in the child between fork and exec.

    With Yama's ptrace_scope 1 only ancestors may trace a process. PR_SET_PTRACER(2const) also
    allows the named process and its descendants, so the process that attaches, our child, may
    trace.
    """
    _libc.prctl(PR_SET_PTRACER, ctypes.c_ulong(os.getppid()), 0, 0, 0)
    if ptrace.ptrace(PTRACE_TRACEME, 0, None, None) != 0:
        raise OSError(ctypes.get_errno(), "ptrace")


def _ptrace(request: int, pid: int, where: int, data: int) -> None:
    if ptrace.ptrace(request, pid, where, data) == -1:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))


def _wait_for_stop(child: subprocess.Popen[bytes], argv0: str, expected: signal.Signals) -> None:
    """Wait until the child stops with ``expected``; deliver every other signal to it."""
    while True:
        _, status = os.waitpid(child.pid, 0)
        if not os.WIFSTOPPED(status):
            child.returncode = os.waitstatus_to_exitcode(status)
            raise CannotAttachError(
                f"{argv0} ended before its first instruction, with status {child.returncode}",
                "run it without flametap to see why",
            )
        if os.WSTOPSIG(status) == expected:
            return
        _ptrace(PTRACE_CONT, child.pid, 0, os.WSTOPSIG(status))


def _entry_point(pid: int) -> int | None:
    """Return AT_ENTRY of a 64-bit process; None for a 32-bit one."""
    with open(f"/proc/{pid}/exe", "rb") as file:
        program = executable.read_program(file.fileno())
    if program is None or program.bits != 64:
        return None
    with open(f"/proc/{pid}/auxv", "rb") as file:
        auxv = file.read()
    for kind, value in struct.iter_unpack("<QQ", auxv):
        if kind == AT_ENTRY:
            return int(value)
        if kind == AT_NULL:
            break
    return None


def _read(pid: int, runtime_addr: int, size: int) -> bytes:
    fd = os.open(f"/proc/{pid}/mem", os.O_RDONLY)
    try:
        return os.pread(fd, size, runtime_addr)
    finally:
        os.close(fd)


def _write(pid: int, runtime_addr: int, data: bytes) -> None:
    fd = os.open(f"/proc/{pid}/mem", os.O_WRONLY)
    try:
        os.pwrite(fd, data, runtime_addr)
    finally:
        os.close(fd)
