"""Start many processes that attach (``server``), each within milliseconds.

They are forked from a process that has one thread and has imported what they need. The profiler has
many threads, and may not fork: a new interpreter would take 0.1 s for each.
"""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import threading

from ..errors import AttachFailedError
from ..linux import forked, helper_process, out_of_memory
from .process import InjectorProcess, Process, no_process, pair_above_standard
from .rpc import MAX_PACKET_BYTES, decode, encode

_REAP_S = 1.0
_ANSWER_S = 5.0


class Nursery:
    """See the module. Any thread may call.

    Raises:
        AttachFailedError: no process can be had.
    """

    def __init__(self) -> None:
        try:
            self._link, theirs = pair_above_standard()
            self._link.settimeout(_ANSWER_S)
            with theirs:
                self._process = _spawn(theirs)
        except OSError as error:
            raise no_process(error) from error
        self._lock = threading.Lock()

    def start(self, pid: int, way: str) -> InjectorProcess:
        """Start the process that will attach to ``pid``.

        Args:
            pid: the target.
            way: one of ``ways.WAYS``.

        Raises:
            AttachFailedError: no process can be had.
        """
        try:
            ours, theirs = pair_above_standard()
            with theirs, self._lock:
                socket.send_fds(self._link, [encode({"pid": pid, "way": way})], [theirs.fileno()])
                said = decode(self._link.recv(MAX_PACKET_BYTES))
            return InjectorProcess(ours, forked.Adopted(said["pid"]))
        except (OSError, ValueError, KeyError) as error:
            raise AttachFailedError(
                f"no process to attach from: {error}", "free memory or raise ulimit -u"
            ) from error

    def close(self) -> None:
        """End it. The processes that it has started go on. Idempotent."""
        self._link.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_ANSWER_S)


def _spawn(link: socket.socket) -> Process:
    with out_of_memory.dying_as_others():
        if forked.can_fork():
            return forked.fork(lambda: main(link.fileno()), link.fileno())
        return helper_process.start(
            "flametap.inject.nursery", link.fileno(), descriptors=[link.fileno()]
        )


def main(descriptor: int) -> None:
    """Start processes as they are asked for, until the other end of the connection is closed.

    Args:
        descriptor: the socket.
    """
    from . import server

    server.be_left_alone()
    children: list[forked.Forked] = []
    with socket.socket(fileno=descriptor) as link:
        link.settimeout(_REAP_S)
        while True:
            children = [each for each in children if each.poll() is None]
            with contextlib.suppress(TimeoutError):
                packet, descriptors, _, _ = socket.recv_fds(link, MAX_PACKET_BYTES, 1)
                if not packet:
                    return
                asked = decode(packet)
                (end,) = descriptors
                child = forked.fork(lambda: server.main(end, asked["pid"], asked["way"]), end)  # noqa: B023
                os.close(end)
                children.append(child)
                link.send(encode({"pid": child.pid}))
