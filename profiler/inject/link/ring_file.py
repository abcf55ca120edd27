"""Take the file of the agent's ring from the target, and map it.

The target may put any file in its place, so nothing about it is believed. The memory of the ring
is sealed at one size (``agent/wire/ring.c``), and seals cannot be removed: once ``take`` has seen
them, no access to the mapping can fail, whatever the target does (mmap(2), SIGBUS).

Source: memfd_create(2), fcntl(2) (file sealing), pidfd_getfd(2), open(2) (O_PATH).
"""

from __future__ import annotations

import errno
import fcntl
import mmap
import os
import stat

from ...errors import AttachFailedError
from ...linux import descriptors
from ...wire.abi import RING_BYTES, RING_HEADER_BYTES

FILE_BYTES = RING_HEADER_BYTES + RING_BYTES
SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL


def take(pid: int, fd: int) -> int:
    """Return a descriptor of ours for the ring that the target has as ``fd``.

    Raises:
        AttachFailedError: it cannot be had, or another file is in its place.
    """
    try:
        try:
            own_fd = descriptors.duplicate(pid, fd)
        except OSError as error:
            # Before Linux 5.6, or in a container whose filter refuses it.
            if error.errno not in (errno.ENOSYS, errno.EPERM):
                raise
            own_fd = _open(pid, fd)
        # A file that is refused stays open until this process ends: to close one of a file system
        # in user space can take as long as the target likes.
        _check(own_fd)
    except OSError as error:
        raise AttachFailedError(
            f"the agent's memory cannot be opened: {error.strerror}",
            "run where the target's /proc/PID/fd can be read: same user, or root",
        ) from error
    return own_fd


def mapped(own_fd: int) -> mmap.mmap:
    """Map a ring that ``take`` returned, to read and write.

    Raises:
        OSError: there is no memory for it.
    """
    return mmap.mmap(own_fd, FILE_BYTES)


def _open(pid: int, fd: int) -> int:
    """Open the ring through /proc; a file that is no memfd is not opened, only looked at."""
    place = os.open(f"/proc/{pid}/fd/{fd}", os.O_PATH | os.O_CLOEXEC)
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


def _check(own_fd: int) -> None:
    """Check that this is a ring: a memfd that can be written, sealed at the right size.

    Raises:
        AttachFailedError: it is not.
    """
    # In this order: only a memfd has seals, and the first two calls reach no file system.
    flags = fcntl.fcntl(own_fd, fcntl.F_GETFL)
    if flags & os.O_PATH or flags & os.O_ACCMODE != os.O_RDWR:
        raise _another_file("it cannot be written")
    try:
        seals = fcntl.fcntl(own_fd, fcntl.F_GET_SEALS)
    except OSError:
        seals = 0
    if seals & SEALS != SEALS:
        raise _another_file("it is not sealed")
    found = os.fstat(own_fd)
    if not stat.S_ISREG(found.st_mode) or found.st_size != FILE_BYTES:
        raise _another_file(f"it has {found.st_size} bytes")


def _another_file(why: str) -> AttachFailedError:
    return AttachFailedError(
        f"the target has put another file in the place of the agent's ring: {why}",
        "the target goes on; see what it does with descriptors that are not its own",
    )
