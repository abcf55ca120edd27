"""Take the files of the agent's ring and control memory from the target.

The target may put any file in its place, so nothing about it is believed. Their memory is sealed at
one size (``agent/wire/ring.c``), and seals cannot be removed: once ``open_own`` has seen them, no
access to the mapping can fail, whatever the target does (mmap(2), SIGBUS).

Source: memfd_create(2), fcntl(2) (file sealing), proc(5) (``fd``), open(2) (O_PATH).
"""

from __future__ import annotations

import fcntl
import mmap
import os
import stat

from ...errors import AttachFailedError
from ...wire.abi import RING_BYTES, RING_HEADER_BYTES

FILE_BYTES = RING_HEADER_BYTES + RING_BYTES
SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL


def open_own(task: str, fd: int, size_bytes: int) -> int:
    """Open a memfd of our thread's own descriptor table once more, and check it.

    Args:
        task: the thread's folder in /proc.
        fd: its descriptor there.
        size_bytes: the size at which it is sealed.

    Raises:
        AttachFailedError: it cannot be had, or another file is in its place.
    """
    try:
        return _checked(_open(f"{task}/fd/{fd}"), size_bytes)
    except OSError as error:
        raise AttachFailedError(
            f"the agent's memory cannot be opened: {error.strerror}",
            "run where the target's /proc/PID/fd can be read: same user, or root",
        ) from error


def mapped(own_fd: int) -> mmap.mmap:
    """Map a ring that ``open_own`` returned, to read and write.

    Raises:
        OSError: there is no memory for it.
    """
    return mmap.mmap(own_fd, FILE_BYTES)


def _open(path: str) -> int:
    """Open a file of another table through /proc; one that is no memfd is only looked at."""
    place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        found = os.fstat(place)
        if not stat.S_ISREG(found.st_mode) or found.st_dev != _memfd_device():
            raise _another_file("it is no memfd")
        return os.open(f"/proc/self/fd/{place}", os.O_RDWR | os.O_CLOEXEC)
    finally:
        os.close(place)


def _memfd_device() -> int:
    """Return the device number of all memfds: that of one of our own."""
    own_fd = os.memfd_create("flametap", os.MFD_CLOEXEC)
    try:
        return os.fstat(own_fd).st_dev
    finally:
        os.close(own_fd)


def _checked(own_fd: int, size_bytes: int) -> int:
    """Return a descriptor that is a memfd sealed at this size; close any other."""
    try:
        seals = fcntl.fcntl(own_fd, fcntl.F_GET_SEALS)
    except OSError:
        seals = 0
    found_bytes = os.fstat(own_fd).st_size
    if seals & SEALS == SEALS and found_bytes == size_bytes:
        return own_fd
    os.close(own_fd)
    raise _another_file(
        "it is not sealed" if seals & SEALS != SEALS else f"it has {found_bytes} bytes"
    )


def _another_file(why: str) -> AttachFailedError:
    return AttachFailedError(
        f"the target has put another file in the place of the agent's ring: {why}",
        "the target goes on; see what it does with descriptors that are not its own",
    )
