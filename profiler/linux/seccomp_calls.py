"""The system calls that an attach makes in the target, with the arguments a filter may look at.

Both tables hold what the agent itself calls. ``FRIDA`` was seen with a filter that reports every
call (frida 17.26, glibc 2.36), newer glibc's added.
"""

from __future__ import annotations

Calls = dict[str, tuple[tuple[int, ...], ...]]
"""Name → arguments of each kind of call; the rest is 0."""

MASK = 0xFFFFFFFF
POINTER = 0x7F0000001000
AF_UNIX, SOCK_STREAM, SOCK_CLOEXEC = 1, 1, 0x80000
AT_FDCWD = 0xFFFFFF9C
# Of glibc's pthread_create.
CLONE_FLAGS = 0x3D0F00
PR_SET_NAME = 15
F_GETFD, F_SETFD, F_ADD_SEALS = 1, 2, 1033
FUTEX_WAIT, FUTEX_WAKE = 0x80, 0x81

# What our thread calls, whatever the way in (agent/entry, agent/platform/os_linux.h).
_AGENT: Calls = {
    "mmap": ((0, 1 << 20, 3, 0x4022, MASK), (0, 1 << 17, 3, 1, 3), (0, 8192, 5, 0x22, MASK)),
    "mprotect": ((POINTER, 4096, 3), (POINTER, 4096, 0)),
    "munmap": ((POINTER, 4096),),
    "madvise": ((POINTER, 4096, 10),),
    "openat": ((AT_FDCWD, POINTER, 0x80000),),
    "read": ((3, POINTER, 64),),
    "pread64": ((3, POINTER, 64),),
    "close": ((3,),),
    "newfstatat": ((AT_FDCWD, POINTER, POINTER, 0),),
    "fstat": ((3, POINTER),),
    "getdents64": ((3, POINTER, 32768),),
    "fcntl": ((3, F_ADD_SEALS, 7),),
    "memfd_create": ((POINTER, 3),),
    "ftruncate": ((3, 1 << 22),),
    "close_range": ((0, MASK, 2),),
    "socketpair": ((AF_UNIX, 0x80805, 0, POINTER),),
    "sendto": ((3, POINTER, 48, 0x4000, 0, 0),),
    "recvmsg": ((3, POINTER, 0),),
    "prctl": ((PR_SET_NAME, POINTER),),
    "capget": ((POINTER, POINTER),),
    "capset": ((POINTER, POINTER),),
    "uname": ((POINTER,),),
    "prlimit64": ((0, 7, 0, POINTER),),
    "gettid": ((),),
    "getpid": ((),),
    "get_robust_list": ((0, POINTER, POINTER),),
    "futex": ((POINTER, 0, 0), (POINTER, 1, 1), (POINTER, 9, 0, POINTER, 0, MASK)),
    "clock_gettime": ((1, POINTER),),
    "clock_nanosleep": ((1, 1, POINTER, 0),),
    "rt_sigaction": ((23, POINTER, POINTER, 8),),
    "rt_sigprocmask": ((2, POINTER, POINTER, 8),),
    "rt_sigpending": ((POINTER, 8),),
    "restart_syscall": ((),),  # made by the kernel for a thread that was stopped in its sleep
    "process_vm_readv": ((0, POINTER, 1, POINTER, 1, 0),),
    "rt_tgsigqueueinfo": ((0, 0, 23, POINTER),),
    "rt_sigreturn": ((),),
    "exit": ((0,),),
}
# The stub's own (agent/arch/x86_64/stub.S).
_STUB: Calls = {
    "rt_sigprocmask": ((2, POINTER, 0, 8),),
    "clone": ((0xD0F00, 0, 0, 0, 0),),
    "mmap": ((0, 1 << 20, 5, 0x4022, MASK),),
    "mprotect": ((POINTER, 1 << 18, 3),),
    "nanosleep": ((POINTER, 0, POINTER),),
    "munmap": ((POINTER, 1 << 20),),
    "exit": ((0,),),
}


def _joined(*tables: Calls) -> Calls:
    names = dict.fromkeys(name for table in tables for name in table)
    return {name: tuple(args for table in tables for args in table.get(name, ())) for name in names}


# What Frida's injection and its agent call.
_FRIDA: Calls = {
    "mmap": ((0, 1 << 20, 7, 0x22, MASK),),
    "mprotect": ((POINTER, 4096, 5),),
    "munmap": ((POINTER, 4096),),
    "mremap": ((POINTER, 4096, 8192, 1),),
    "madvise": ((POINTER, 4096, 4),),
    "brk": ((),),
    "openat": ((AT_FDCWD, POINTER, 0x80000),),
    "read": ((3, POINTER, 64),),
    "pread64": ((3, POINTER, 64),),
    "write": ((3, POINTER, 8),),
    "close": ((3,),),
    "fstat": ((3, POINTER),),
    "newfstatat": ((3, POINTER, POINTER, 0x1000),),
    "getdents64": ((3, POINTER, 32768),),
    "fcntl": ((3, F_SETFD, 1),),
    "dup3": ((3, 4, 0x80000),),
    "pipe2": ((POINTER, 0x80000),),
    "eventfd2": ((0, 0x80800),),
    "poll": ((POINTER, 1, 0),),
    "ppoll": ((POINTER, 1, 0, 0, 8),),
    "access": ((POINTER, 4),),
    "uname": ((POINTER,),),
    "socketpair": ((AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, POINTER),),
    "socket": ((AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0),),
    "connect": ((3, POINTER, 64),),
    "sendto": ((3, POINTER, 1, 0x4000, 0, 0),),
    "sendmsg": ((3, POINTER, 0x4000),),
    "recvmsg": ((3, POINTER, 0),),
    "recvfrom": ((3, POINTER, 64, 0, 0, 0),),
    "getsockopt": ((3, 1, 3, POINTER, POINTER),),
    "setsockopt": ((3, 1, 7, POINTER, 4),),
    "getsockname": ((3, POINTER, POINTER),),
    "getpeername": ((3, POINTER, POINTER),),
    "shutdown": ((3, 2),),
    "clone3": ((POINTER, 88),),
    "clone": ((CLONE_FLAGS, POINTER, POINTER, POINTER, POINTER),),
    "rseq": ((POINTER, 32, 0, 0x53053053),),
    "set_robust_list": ((POINTER, 24),),
    "get_robust_list": ((0, POINTER, POINTER),),
    "prctl": ((PR_SET_NAME, POINTER),),
    "sigaltstack": ((0, POINTER),),
    "sched_getaffinity": ((0, 32, POINTER),),
    "sched_yield": ((),),
    "gettid": ((),),
    "getpid": ((),),
    "geteuid": ((),),
    "getegid": ((),),
    "futex": ((POINTER, FUTEX_WAIT, 0),),
    "prlimit64": ((0, 7, 0, POINTER),),
    "clock_gettime": ((1, POINTER),),
    "clock_nanosleep": ((1, 0, POINTER, 0),),
    "getrandom": ((POINTER, 16, 1),),
    "rt_sigaction": ((23, POINTER, POINTER, 8),),
    "rt_sigprocmask": ((2, POINTER, POINTER, 8),),
    "rt_sigpending": ((POINTER, 8),),
    "exit": ((0,),),
    "restart_syscall": ((),),  # made by the kernel for a thread that was stopped in its sleep
    "memfd_create": ((POINTER, 0xB),),
    "ftruncate": ((3, 1 << 22),),
    "close_range": ((0, MASK, 2),),
    "process_vm_readv": ((0, POINTER, 1, POINTER, 1, 0),),
    "rt_tgsigqueueinfo": ((0, 0, 23, POINTER),),
    "rt_sigreturn": ((),),
}
DIRECT = _joined(_AGENT, _STUB)
FRIDA = _joined(_AGENT, _FRIDA)
# Without these the sampler's rounds decide when a thread is sampled, and not its CPU clock.
TIMERS: Calls = {
    "timer_create": ((MASK, POINTER, POINTER),),
    "timer_settime": ((0, 0, POINTER, 0),),
    "timer_delete": ((0,),),
    "clock_getres": ((6, POINTER),),
    "uname": ((POINTER,),),
}
# How our thread reaches the host where the kernel does not hand out its socket: before Linux 6.9.
SOCKETS: Calls = {"socket": ((AF_UNIX, 0x80805, 0),), "connect": ((3, POINTER, 27),)}
# Threads that the target had before run only our signal handler, and sleeps that go on after it.
THREADS = (
    "rt_sigreturn",
    "restart_syscall",
    "process_vm_readv",
    "rt_sigprocmask",
    "rt_sigpending",
    "rt_sigaction",
    "clock_gettime",
    "getpid",
    "gettid",
    "getsockopt",
)
# What fails without them: nothing, or what the text says.
OPTIONAL = {
    "get_robust_list": "",
    "sched_getaffinity": "",
    "access": "",
    "uname": "",
    "madvise": "",
    "brk": "",
    "mremap": "",
    "sched_yield": "",
    "socket": "",  # only where socketpair fails
    "connect": "",
    "shutdown": "",
    "getpeername": "",
    "setsockopt": "",
    "sigaltstack": "",
    "prctl": "",
    "capget": "",
    "capset": "",
    "unshare": "",
    "getrandom": "",
    "rt_sigpending": "",  # a wait is then started again, whatever else is pending
    "rt_tgsigqueueinfo": "running threads cannot be sampled",
}
# An error in place of these is as bad: the thread continues where it never was, or wakes too early;
# glibc aborts; Frida reads what it then could not be sure of (each tried, glibc 2.36, frida 17.26).
MUST_SUCCEED = ("rt_sigreturn", "restart_syscall", "exit", "rseq", "process_vm_readv")
