"""Open what an agent may not open itself.

The files of a process that changed its user belong to root. Its agent may read what its threads
wait in, but not open the file that tells it (``agent/process/host_files.c``). It sends the number
of a thread over a socket, and gets a descriptor of that thread's ``syscall`` file; or, where a
signal comes with the number, that signal from precise clocks (``held_clocks``), a thread that takes
it (``admission``), or where its alternate stack is (``stack_probe``). That is all there is to be
had here. unix(7), SCM_RIGHTS; proc(5).
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import struct
import threading

from ...linux.tasks import own_tids
from .alternate import REFUSED, Alternate
from .grants import Grants
from .held_clocks import HeldClocks
from .perf_clock import Table

SIGNALS = (signal.SIGURG, signal.SIGWINCH)  # those that harm nobody: agent/sampling/disposition.c
ASK_STACK = 8  # in place of a kind of clock
STACK_REFUSED = 1
REQUEST = struct.Struct("=IIQQQQ")  # struct request in agent/process/host_files.c


def start(pid: int, link: socket.socket, grants: Grants) -> None:
    """Answer the agent from now on, on a thread of its own that ends with the agent.

    Args:
        pid: the target.
        link: to the agent (``host_socket``); closed at the end.
        grants: what the agent may have besides files and clocks.
    """
    link.setblocking(True)
    threading.Thread(
        target=_serve, args=(pid, link, grants), daemon=True, name="file-lender"
    ).start()


def _serve(pid: int, link: socket.socket, grants: Grants) -> None:
    numbers: dict[int, int] = {}
    is_elsewhere = _is_in_namespace(pid)
    clocks = HeldClocks(pid)
    with link, contextlib.closing(clocks), contextlib.suppress(OSError):
        while True:
            clocks.look()
            link.settimeout(clocks.wait_s())
            try:
                request = link.recv(REQUEST.size)
            except TimeoutError:
                continue
            if len(request) != REQUEST.size:
                return
            own_tid: int
            own_tid, signo, table_addr, cookie, mean_ns, kind = REQUEST.unpack(request)
            if is_elsewhere and own_tid not in numbers:
                numbers = own_tids(pid)
            tid = numbers.get(own_tid, own_tid)
            if signo:
                table = Table(table_addr, cookie, signo)
                if signo not in SIGNALS:
                    is_done = False
                elif kind == ASK_STACK:
                    found = grants.alternate_stacks.find(tid)
                    request = REQUEST.pack(own_tid, signo, *_told(found), kind)
                    is_done = True
                elif kind:
                    is_done = clocks.want(tid, table, mean_ns, kind)
                else:
                    is_done = grants.admission.admit(tid, signo)
                _answer(
                    link, request if is_done else REQUEST.pack(own_tid, signo, 0, 0, 0, kind), -1
                )
            else:
                _answer(link, request, _open(pid, tid))


def _told(found: Alternate | None) -> tuple[int, int, int]:
    """What is answered of an alternate stack: whether it is known, and if so, where it is."""
    if found is None:
        return 0, 0, 0
    return (0, STACK_REFUSED, 0) if found == REFUSED else (1, found.start, found.size_bytes)


def _answer(link: socket.socket, answer: bytes, fd: int) -> None:
    try:
        with contextlib.suppress(OSError):  # its queue of descriptors is full, say
            socket.send_fds(link, [answer], [fd] if fd >= 0 else [])
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
