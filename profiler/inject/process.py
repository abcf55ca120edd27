"""Start the process that attaches (``server``).

It is forked while this process has one thread: then it is there at once. Otherwise it is a new
interpreter. So a command that will attach starts it before it imports the rest.
"""

from __future__ import annotations

import fcntl
import socket
import subprocess
from typing import NamedTuple

from ..errors import AttachFailedError
from ..linux import forked, helper_process, out_of_memory

FIRST_OWN_DESCRIPTOR = 3

Process = subprocess.Popen[bytes] | forked.Forked


class InjectorProcess(NamedTuple):
    """The process, and our end of the connection to it: it ends soon after that is closed."""

    link: socket.socket
    process: Process | None  # None: the tests have a thread there


def start(pid: int, way: str) -> InjectorProcess:
    """Start the process that will attach to ``pid``.

    Args:
        pid: the target.
        way: one of ``ways.WAYS``.

    Raises:
        AttachFailedError: no process can be had.
    """
    ends: tuple[socket.socket, ...] = ()
    try:
        ends = ours, theirs = pair_above_standard()
        with theirs:
            return InjectorProcess(ours, spawn(theirs, pid, way))
    except OSError as error:
        for end in ends:
            end.close()
        raise no_process(error) from error


def spawn(link: socket.socket, pid: int, way: str) -> Process | None:
    """Start the process at the other end of ``link``; the tests have a thread there.

    It must not be killed for want of memory while it has hold of the target.
    """
    descriptor = link.fileno()
    with out_of_memory.dying_as_others():
        if forked.can_fork():

            def main() -> None:
                from . import server

                server.main(link.detach(), pid, way)

            return forked.fork(main, descriptor)
        return helper_process.start(
            "flametap.inject.server", descriptor, pid, way, descriptors=[descriptor]
        )


def no_process(error: Exception) -> AttachFailedError:
    """Return the error for a process or a thread that cannot be had."""
    return AttachFailedError(
        f"no process to attach from: {error}", "free memory or raise ulimit -u"
    )


def pair_above_standard() -> tuple[socket.socket, socket.socket]:
    """Return the two ends of a new connection."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        ours = _above_standard(ours)
        return ours, _above_standard(theirs)


def _above_standard(end: socket.socket) -> socket.socket:
    """The same where no standard stream belongs: those may be closed, and are opened for others."""
    with end:
        return socket.socket(
            fileno=fcntl.fcntl(end.fileno(), fcntl.F_DUPFD_CLOEXEC, FIRST_OWN_DESCRIPTOR)
        )
