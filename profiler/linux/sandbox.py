"""Give up all rights of this process: for code that reads hostile files.

Afterwards the process can compute, and read and write through the descriptors that it has. It is no
longer root, but a user that nobody else is, and has no capability. It can never get rights again
(no_new_privs). Other processes cannot read its memory. A filter denies all other system calls with
EPERM: it cannot open or create a file, start a program or a thread, make a socket, or trace, signal
or read another process. Import and open everything before.

The filter is a list of what is allowed, in classic BPF. We write it ourselves: libseccomp is not on
every machine, and its bindings for Python bring none. ``seccomp`` reads such programs; this module
only makes one.

Source: seccomp(2), prctl(2); Documentation/userspace-api/seccomp_filter.rst, no_new_privs.rst.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import random
import resource

from .arch_x86_64 import AUDIT_ARCH
from .file_rights import drop_capabilities
from .raw_syscall import raw_syscall
from .seccomp import ALLOW, ERRNO, INSTRUCTION, KILL_PROCESS
from .syscalls import syscall_number

NOBODY = 65534
# No system gives these to a user (systemd's UIDS-GIDS.md). ``nobody`` is a user as others: its
# processes could stop or end ours.
STRANGERS = range(0x70000000, 0x7FFFFFFE)
_PR_SET_DUMPABLE, _PR_SET_NO_NEW_PRIVS = 4, 38  # include/uapi/linux/prctl.h
_SECCOMP_SET_MODE_FILTER, _TSYNC = 1, 1
_EPERM = 1
_LOAD, _JUMP_IF_EQUAL, _RETURN = 0x20, 0x15, 0x06  # BPF_LD|W|ABS, BPF_JMP|JEQ|K, BPF_RET|K
_NUMBER, _ARCH, _FIRST_ARGUMENT = 0, 4, 16  # offsets in struct seccomp_data

# What an interpreter and native code need to compute, and to answer over a socket that they have.
# glibc's fstat is newfstatat: it may also ask for the size of a file by name, as that user.
_ALLOWED = """
    brk mmap munmap mremap mprotect madvise mlock munlock membarrier
    read pread64 readv lseek fstat newfstatat close dup fcntl write writev memfd_create ftruncate
    sendmsg recvmsg poll ppoll
    futex sched_yield sched_getaffinity set_robust_list rseq gettid getpid getrusage
    clock_gettime clock_getres clock_nanosleep nanosleep gettimeofday time pause restart_syscall
    rt_sigaction rt_sigprocmask rt_sigreturn sigaltstack getrandom uname sysinfo
    exit exit_group
"""


def confine() -> None:
    """Give up all rights of this process, for good. Call it once, in the only thread.

    Raises:
        OSError: the kernel lacks what it takes, or denies it.
    """
    raw_syscall("prctl", _PR_SET_NO_NEW_PRIVS, *map(ctypes.c_ulong, (1, 0, 0, 0)))
    if os.geteuid() == 0:
        # A container's root may lack the right to become another user, or know few of them. The
        # filter holds all the same, and it may open nothing.
        with contextlib.suppress(PermissionError):
            os.setgroups([])
            _become(random.SystemRandom().choice(STRANGERS))
    drop_capabilities()
    raw_syscall("prctl", _PR_SET_DUMPABLE, *map(ctypes.c_ulong, (0, 0, 0, 0)))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def deny_system_calls() -> None:
    """Install the filter in all threads of this process. Call ``confine`` first.

    Raises:
        OSError: the kernel has no such filters.
    """
    program = _program()
    code = ctypes.create_string_buffer(program, len(program))

    class Program(ctypes.Structure):  # struct sock_fprog
        _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_void_p))

    head = Program(len(program) // INSTRUCTION.size, ctypes.addressof(code))
    raw_syscall("seccomp", _SECCOMP_SET_MODE_FILTER, _TSYNC, ctypes.byref(head))


def _become(user: int) -> None:
    """Become a user and a group that no other process has, else ``nobody``."""
    for number in (user, NOBODY):
        try:
            os.setresgid(number, number, number)
            os.setresuid(number, number, number)
            return
        except OSError as error:
            if error.errno != errno.EINVAL:  # not mapped in our user namespace
                raise


def _program() -> bytes:
    """Return the filter. Calls of another architecture's table end the process."""
    lines = [
        (_LOAD, 0, 0, _ARCH),
        (_JUMP_IF_EQUAL, 1, 0, AUDIT_ARCH),
        (_RETURN, 0, 0, KILL_PROCESS),
        (_LOAD, 0, 0, _NUMBER),
    ]
    for name in _ALLOWED.split():
        lines += [(_JUMP_IF_EQUAL, 0, 1, syscall_number(name)), (_RETURN, 0, 0, ALLOW)]
    # Only with ourselves: abort() sends a signal, and a limit is set for each file that is read.
    for name, first in (("tgkill", os.getpid()), ("kill", os.getpid()), ("prlimit64", 0)):
        lines += [
            (_JUMP_IF_EQUAL, 0, 4, syscall_number(name)),
            (_LOAD, 0, 0, _FIRST_ARGUMENT),  # its low half: ids have 32 bits
            (_JUMP_IF_EQUAL, 0, 1, first),
            (_RETURN, 0, 0, ALLOW),
            (_RETURN, 0, 0, ERRNO | _EPERM),
        ]
    lines.append((_RETURN, 0, 0, ERRNO | _EPERM))
    return b"".join(INSTRUCTION.pack(*line) for line in lines)
