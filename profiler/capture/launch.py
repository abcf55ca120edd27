"""Start a program and hold it at its entry point until the profiler is in place (``record --
CMD``).

The child is traced from exec up to its entry point (auxv AT_ENTRY): by then the dynamic loader has
mapped libc, which Frida needs, and nothing of the program has run. There two bytes of its code
become a jump to itself, and the tracer lets go, because Frida has to trace it next. ``release``
puts the two bytes back and the program begins. This is the only place where code is changed, and it
is a process of our own. ptrace(2), getauxval(3), System V ABI AMD64 3.4.1.
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
    """A child held at its entry point. Its output, input and error are ours."""

    def __init__(self, child: subprocess.Popen[bytes], entry: int, code: bytes) -> None:
        self._child = child
        self._entry = entry
        self._code = code
        self.pid = child.pid

    def release(self) -> None:
        """Let the program begin. May be called again."""
        if self._code:
            # A program that is gone already needs no release.
            with contextlib.suppress(OSError):
                _write(self.pid, self._entry, self._code)
            self._code = b""

    def wait(self) -> int:
        """Wait for the program's end: its exit code, or 128 + n after signal n, as in a shell."""
        try:
            _, status = os.waitpid(self.pid, 0)
            code = os.waitstatus_to_exitcode(status)
        except ChildProcessError:  # ``terminate`` was before us
            code = self._child.returncode or 0
        self._child.returncode = code
        return 128 - code if code < 0 else code

    def kill(self) -> None:
        """Kill the program. Nothing happens once it was waited for."""
        with contextlib.suppress(ProcessLookupError):
            self._child.send_signal(signal.SIGKILL)

    def terminate(self) -> None:
        """Kill the program and reap it."""
        self.kill()
        self._child.wait()


def launch(argv: Sequence[str], *, stdout: int | None = None) -> Launched:
    """Start ``argv`` and hold it at its entry point.

    Args:
        argv: the program, found on PATH, and its arguments.
        stdout: a descriptor for its standard output; ours when None.

    Raises:
        UsageError: it cannot be run.
        CannotAttachError: it ended before its entry point, or the kernel does not let us trace it.
    """
    try:
        child = subprocess.Popen(list(argv), stdout=stdout, preexec_fn=_trace_me)
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
            # 32-bit: preflight will say so; the program need not be held for that.
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
    """Runs in the child between fork and exec.

    Where only ancestors may trace (Yama, ptrace_scope 1), our process that attaches is let, too:
    the exception holds for descendants of the one that is named. PR_SET_PTRACER(2const).
    """
    _libc.prctl(PR_SET_PTRACER, ctypes.c_ulong(os.getppid()), 0, 0, 0)
    if ptrace.ptrace(PTRACE_TRACEME, 0, None, None) != 0:
        raise OSError(ctypes.get_errno(), "ptrace")


def _ptrace(request: int, pid: int, where: int, data: int) -> None:
    if ptrace.ptrace(request, pid, where, data) == -1:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))


def _wait_for_stop(child: subprocess.Popen[bytes], argv0: str, expected: signal.Signals) -> None:
    """Wait until the child stops with ``expected``; pass any other signal on to it."""
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
    """AT_ENTRY of a 64-bit process; None for a 32-bit one."""
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
