"""Open what an agent may not open itself.

The files of a process that changed its user belong to root. Its agent may read what its threads
wait in, but not open the file that tells it (``agent/process/host_files.c``). It sends the number
of a thread over a socket, and gets a descriptor of that thread's ``syscall`` file; or, where a
signal comes with the number, one of a clock that sends it (``perf_clock``). That is all there is to
be had here. unix(7), SCM_RIGHTS; pidfd_getfd(2); proc(5).
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import struct
import threading

from ..linux import ptrace
from ..linux.syscalls import syscall_number
from . import perf_clock

SYS_PIDFD_GETFD = syscall_number("pidfd_getfd")
SIGNALS = (signal.SIGURG, signal.SIGWINCH)  # those that harm nobody: agent/sampling/disposition.c
REQUEST = struct.Struct("=IIQ")  # struct request in agent/process/host_files.c


def start(pid: int, fd: int) -> bool:
    """Answer the agent from now on, on a thread of its own that ends with the agent.

    Args:
        pid: the target.
        fd: the descriptor of our end of the sockets, in the target.

    Returns:
        False where the kernel does not hand it out (before Linux 5.6); the agent then gets nothing.
    """
    try:
        pidfd = os.pidfd_open(pid)
    except OSError:
        return False
    try:
        own_fd = ptrace.syscall(SYS_PIDFD_GETFD, pidfd, fd, 0)
    finally:
        os.close(pidfd)
    if own_fd < 0:
        return False
    try:
        link = socket.socket(fileno=own_fd)
        if (link.family, link.type) != (socket.AF_UNIX, socket.SOCK_SEQPACKET):
            link.close()
            return False
        link.setblocking(True)
    except OSError:  # the target has put another file there
        os.close(own_fd)
        return False
    threading.Thread(target=_serve, args=(pid, link), daemon=True, name="file-lender").start()
    return True


def _serve(pid: int, link: socket.socket) -> None:
    numbers: dict[int, int] = {}
    is_elsewhere = _is_in_namespace(pid)
    with link, contextlib.suppress(OSError):
        while len(request := link.recv(REQUEST.size)) == REQUEST.size:
            own_tid: int
            own_tid, signo, armed_addr = REQUEST.unpack(request)
            if is_elsewhere and own_tid not in numbers:
                numbers = _numbers(pid)
            tid = numbers.get(own_tid, own_tid)
            fd = _open_clock(pid, tid, signo, armed_addr) if signo else _open(pid, tid)
            try:
                with contextlib.suppress(OSError):  # its queue of descriptors is full, say
                    socket.send_fds(link, [request], [fd] if fd >= 0 else [])
            finally:
                if fd >= 0:
                    os.close(fd)


def _is_in_namespace(pid: int) -> bool:
    """Tell whether the process knows its threads by other numbers than we do."""
    with contextlib.suppress(OSError), open(f"/proc/{pid}/status") as file:
        return any(line.startswith("NSpid:") and len(line.split()) > 2 for line in file)
    return False


def _open(pid: int, tid: int) -> int:
    with contextlib.suppress(OSError):
        return os.open(f"/proc/{pid}/task/{tid}/syscall", os.O_RDONLY | os.O_CLOEXEC)
    return -1


def _open_clock(pid: int, tid: int, signo: int, armed_addr: int) -> int:
    fd = perf_clock.open_clock(tid, signo, armed_addr) if signo in SIGNALS else -1
    # A number may have come to be another process's. Where the target has it now, it had it then.
    if fd >= 0 and not os.path.exists(f"/proc/{pid}/task/{tid}"):
        os.close(fd)
        return -1
    return fd


def _numbers(pid: int) -> dict[int, int]:
    """A thread's number in the target's pid namespace → its number here. proc(5), ``NSpid``."""
    found = {}
    with contextlib.suppress(OSError):
        for name in os.listdir(f"/proc/{pid}/task"):
            with (
                contextlib.suppress(OSError, ValueError),
                open(f"/proc/{pid}/task/{name}/status") as file,
            ):
                for line in file:
                    if line.startswith("NSpid:"):
                        found[int(line.split()[-1])] = int(name)
    return found
