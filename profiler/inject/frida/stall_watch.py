"""Tell when an answer will not come: Frida's two halves wait for each other.

Between the injection of its agent and the end of an attach, Frida's agent in the target and its
host in our process talk over unix sockets. When a message is lost between them both wait for ever,
and a cancelled attach leaves the agent where it is until our process ends. ``is_stuck`` sees it: on
neither side does a thread run or want to. ``hang_up`` closes the connection under both of them, and
the agent unloads itself. Where it must not do so yet, ``take_over`` closes it under us alone.

Reads ``/proc``; the target does not notice.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from collections.abc import Callable

from ...linux import procfs
from ...linux.peer import peer_of

# How often in a row nobody may be seen running before that counts as for ever. At ten looks a
# second: on an overloaded machine threads wait for a CPU, and that is not idleness.
IDLE_LOOKS = 30
RUNNING = "RD"  # states of proc(5): running or waiting for a CPU; waiting for a disk


class Handshake:
    """Watch one attach, from before it begins.

    Args:
        pid: the target.
        proc: where procfs is mounted.

    Attributes:
        idle_looks: how many calls of ``is_stuck`` in a row have found both sides idle.
    """

    def __init__(self, pid: int, proc: str = procfs.PROC) -> None:
        self._pid = pid
        self._proc = proc
        self._sockets_before = _unix_sockets()
        self._threads_before = set(self._states(pid))
        self.idle_looks = 0

    def is_at_work(self) -> bool:
        """True when a thread that has come since runs there, or waits for a CPU."""
        return "R" in self._their_states()

    def is_stuck(self) -> bool:
        """True when both sides have been idle for ``IDLE_LOOKS`` calls in a row."""
        caller = threading.get_native_id()
        theirs = self._their_states()
        ours = [state for tid, state in self._states(os.getpid()).items() if tid != caller]
        is_idle = bool(theirs) and not set(theirs + ours) & set(RUNNING)
        self.idle_looks = self.idle_looks + 1 if is_idle else 0
        return self.idle_looks >= IDLE_LOOKS

    def hang_up(self) -> None:
        """Closes, in both directions, every connection that the attach has made."""
        self._shut_down(lambda connection: True)

    def hang_up_on_agent(self) -> None:
        """The same for the connection to Frida's agent alone; the one to its loader stays.

        The loader has connected to us. The agent was sent one end of a pair that we had made, and
        for such a pair the kernel names its maker as the peer: unix(7), SO_PEERCRED.
        """
        self._shut_down(lambda connection: peer_of(connection).pid == os.getpid())

    def take_over(self) -> list[int]:
        """Take every connection that the attach has made away from Frida, which finds it ended.

        Returns:
            new descriptors of them: at the other end they are open until these are closed. None
            when called again.
        """
        taken: list[int] = []
        for fd, inode in sorted(_unix_sockets() - self._sockets_before):
            with contextlib.suppress(OSError):
                if os.fstat(fd).st_ino != inode:
                    continue
                taken.append(os.dup(fd))
                nobody, ended = socket.socketpair()
                with nobody, ended:
                    os.dup2(ended.fileno(), fd, inheritable=False)
        self._sockets_before = _unix_sockets()
        return taken

    def _shut_down(self, is_meant: Callable[[socket.socket], bool]) -> None:
        for fd, inode in _unix_sockets() - self._sockets_before:
            with contextlib.suppress(OSError), socket.socket(fileno=os.dup(fd)) as connection:
                if os.fstat(connection.fileno()).st_ino == inode and is_meant(connection):
                    connection.shutdown(socket.SHUT_RDWR)

    def _their_states(self) -> list[str]:
        return [
            state
            for tid, state in self._states(self._pid).items()
            if tid not in self._threads_before
        ]

    def _states(self, pid: int) -> dict[int, str]:
        """Thread → its state, a letter."""
        states = {}
        with contextlib.suppress(*procfs.GONE):
            for tid in procfs.list_tasks(pid, self._proc):
                with contextlib.suppress(*procfs.GONE):
                    states[tid] = procfs.read_task_state(pid, tid, self._proc)
        return states


def _unix_sockets() -> set[tuple[int, int]]:
    """(descriptor, inode) of each unix socket that we hold."""
    found = set()
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            if not os.readlink(f"/proc/self/fd/{name}").startswith("socket:"):
                continue
            with socket.socket(fileno=os.dup(int(name))) as connection:
                if connection.family == socket.AF_UNIX:
                    found.add((int(name), os.fstat(connection.fileno()).st_ino))
    return found
