"""Has Frida's agent print nothing into the target's output.

The agent has a C library of its own that writes to descriptors 1 and 2, the target's. When its
connection is cut before it has come up, it says so there: "[Frida INFO] agent.vala:217: Unable to
start agent: …". Whatever it logs goes through one format string. The agent comes to the target as a
memory file (memfd_create(2)) of our process, which the target's loader maps; there that string is
made empty, once, before it is first sent.
"""

from __future__ import annotations

import contextlib
import mmap
import os

AGENT_FILE = "/memfd:frida-agent"
# As the C compiler lays it down: nothing may share its end.
LOG_FORMAT = b"\0[%s %s] %s\n\0"

_silenced: set[tuple[int, int]] = set()  # (device, inode) of files that have been looked at


def silence() -> None:
    """Silences each copy of the agent that this process holds. Where the string is not there, as
    it may be with another version of Frida, nothing happens.
    """
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError, ValueError):  # it has been closed; no memory to map it
            if os.readlink(f"/proc/self/fd/{name}").startswith(AGENT_FILE):
                _silence(int(name))


def _silence(descriptor: int) -> None:
    file = os.fstat(descriptor)
    if (file.st_dev, file.st_ino) in _silenced:
        return
    _silenced.add((file.st_dev, file.st_ino))
    with mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ) as agent:
        at = agent.find(LOG_FORMAT)
    if at >= 0:
        os.pwrite(descriptor, b"\0", at + 1)
