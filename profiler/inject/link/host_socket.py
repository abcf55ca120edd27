"""A connection to our thread in the target, over which it asks for what it may not do itself.

The thread makes a pair of sockets in a descriptor table of its own, of which we take one end. The
kernel lets us do so since Linux 6.9; before, the thread connects to a socket of ours. Its name is
abstract: no file, and seen only in the target's network namespace. unix(7), namespaces(7)
"""

from __future__ import annotations

import contextlib
import os
import secrets
import socket
import struct
import threading

from ...linux import descriptors, seccomp_filters
from ...linux.peer import peer_of
from ...linux.ptrace import syscall
from ...linux.syscalls import syscall_number
from .control import Control

CLONE_NEWNET = 0x40000000
WAITING_MAX = 16


def take(tid: int, fd: int) -> socket.socket | None:
    """Take our end of the thread's pair.

    Args:
        tid: our thread in the target.
        fd: our end's descriptor in that thread's own table.

    Returns:
        None where the kernel does not hand it out, or it is no such socket.
    """
    try:
        own_fd = descriptors.duplicate_of_thread(tid, fd)
    except OSError:
        return None
    try:
        link = socket.socket(fileno=own_fd)
    except OSError:  # the target has put another file there
        os.close(own_fd)
        return None
    if (link.family, link.type) != (socket.AF_UNIX, socket.SOCK_SEQPACKET):
        link.close()
        return None
    return link


def accept(pid: int, control: Control) -> socket.socket | None:
    """Have our thread connect to a socket of ours.

    Args:
        pid: the target.
        control: our thread.

    Returns:
        None where the target's seccomp filters or our rights do not permit that.

    Raises:
        AttachFailedError: our thread does not answer.
    """
    if not seccomp_filters.allow_sockets(pid):
        return None
    try:
        listener = _socket_in_network_of(pid)
    except OSError:
        return None
    with listener:
        name = b"\0flametap-" + secrets.token_hex(8).encode()
        listener.bind(name)
        listener.listen(WAITING_MAX)
        listener.setblocking(False)
        if control.connect(struct.pack("=H", socket.AF_UNIX) + name) != 0:
            return None
        with contextlib.suppress(OSError):  # nobody else waits
            while True:
                link, _ = listener.accept()
                if peer_of(link).pid == pid:
                    return link
                link.close()
    return None


def _socket_in_network_of(pid: int) -> socket.socket:
    """A socket of the target's network namespace.

    Raises:
        OSError: it has one of its own, which we may not enter.
    """
    if os.path.samefile("/proc/self/ns/net", f"/proc/{pid}/ns/net"):
        return socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    made: list[socket.socket] = []

    def make() -> None:
        namespace = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY)
        try:
            if syscall(syscall_number("setns"), namespace, CLONE_NEWNET) == 0:
                made.append(socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET))
        finally:
            os.close(namespace)

    # The namespace is a thread's own: this one ends with the call.
    maker = threading.Thread(target=make, name="flametap-network")
    maker.start()
    maker.join()
    if not made:
        raise PermissionError(f"the network namespace of process {pid} is closed to us")
    return made[0]
