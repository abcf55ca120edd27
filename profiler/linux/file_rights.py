"""Open files with the rights of another process's user, in one thread of ours.

A profiler that runs as root must not open a file for a target that the target itself may not read.
So the thread takes over the target's file system user, group and supplementary groups, and keeps
the capabilities that override permissions only if the target has them. The kernel then decides.
Linux has these for NFS servers, which do the same.

We take them in the thread that opens, and not in a helper process with the target's ids: a process
of the target's user could be traced, stopped and killed by the target, a thread of ours cannot, as
its other ids stay. If an interrupt ends the taking or the return halfway, the thread has fewer
rights than before, never more.

Any thread may use this. A thread that is started meanwhile inherits the rights.

Source: setfsuid(2), capabilities(7), "Effect of user ID changes on capabilities"; credentials(7).
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from . import procfs
from .raw_syscall import raw_syscall

CAP_SETGID, CAP_SETUID = 6, 7  # include/uapi/linux/capability.h
_READS_ALL = 1 << 1 | 1 << 2  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH
_NOBODY_ELSE = 0xFFFFFFFF  # -1: setfsuid changes nothing and returns the current id
_CAPABILITY_HEADER = struct.pack("=Ii", 0x20080522, 0)  # version 3, this thread
# Each half of the mask has its effective, permitted and inheritable bits.
_CAPABILITY_DATA = struct.Struct("=6I")


@dataclass(frozen=True)
class Rights:
    """What decides which files a process may read."""

    uid: int  # file system user id, as we see it
    gid: int
    groups: frozenset[int]
    reads_all: bool  # it may read what permissions deny


class ProcessUser:
    """The user of a process. Asked anew at each use, since a process may change it.

    After the end of the process it is the last one that we saw, even if the number is reused. It is
    also the last one after the process has become what it could not become by itself: it then runs
    a setuid program, which does not open files for the program before.

    Args:
        pid: the process.
        proc: where procfs is mounted.

    Attributes:
        folder: the process's folder in procfs.
    """

    def __init__(self, pid: int, proc: str = procfs.PROC) -> None:
        self.folder = f"{proc}/{pid}"
        self._pid = pid
        self._proc = proc
        self._started: int | None = None
        self._last: Rights | None = None
        self._status: procfs.ProcessStatus | None = None  # from which the rights are
        try:
            self._started = procfs.read_start_ticks(pid, proc)
        except OSError:
            return
        self._look()

    def rights(self) -> Rights:
        """Return its rights.

        Raises:
            PermissionError: the process had ended before we saw them.
        """
        self._look()
        if self._last is None:
            raise PermissionError(errno.EPERM, "the target's user is not known")
        return self._last

    def _look(self) -> None:
        try:
            status = procfs.read_status(self._pid, self._proc)
            is_ours = procfs.same_namespace(self._pid, "user", self._proc)
            if procfs.read_start_ticks(self._pid, self._proc) != self._started:
                return
        except OSError:
            return
        if self._status is not None and not _may_become(self._status, status, bool(is_ours)):
            return
        self._status = status
        # Capabilities in another user namespace mean nothing for files of ours.
        reads_all = bool(is_ours) and bool(status.capabilities_effective & _READS_ALL)
        self._last = Rights(status.uids[3], status.gids[3], status.groups, reads_all)


def _may_become(
    before: procfs.ProcessStatus, now: procfs.ProcessStatus, is_our_namespace: bool
) -> bool:
    """Return whether a process could change its rights so without a program that has others."""
    capabilities = before.capabilities_permitted
    groups = now.groups | set(now.gids)
    may_uids = set(now.uids) <= set(before.uids) or capabilities >> CAP_SETUID & 1
    may_gids = groups <= before.groups | set(before.gids) or capabilities >> CAP_SETGID & 1
    # A new user namespace gives all capabilities, over what is in it.
    has_more = is_our_namespace and now.capabilities_permitted & ~capabilities
    return bool(may_uids and may_gids and not has_more)


@contextmanager
def acting_as(user: ProcessUser | None) -> Iterator[None]:
    """Open files with the rights of a process's user until the block ends; ``None``: with ours.

    Raises:
        PermissionError: the user is not known, or another one and we lack the right to act as it.
    """
    if user is None:
        yield
        return
    theirs = user.rights()
    uid, gid = _file_system_ids()
    groups = os.getgroups()
    capabilities = read_capabilities()
    effective = capabilities[0] | capabilities[3] << 32
    wanted = effective if theirs.reads_all else effective & ~_READS_ALL
    is_same = (uid, gid, frozenset(groups)) == (theirs.uid, theirs.gid, theirs.groups)
    may_change = effective >> CAP_SETUID & 1 and effective >> CAP_SETGID & 1
    if not (is_same or may_change):
        if uid != theirs.uid:
            raise PermissionError(
                errno.EPERM, "to open files as the target's user needs CAP_SETUID and CAP_SETGID"
            )
        is_same = True  # our own user, in other groups: we have no more than our own rights
    if is_same and wanted == effective:
        yield
        return
    try:
        if not is_same:
            _set_groups(sorted(theirs.groups))
            raw_syscall("setfsgid", ctypes.c_uint32(theirs.gid))
            raw_syscall("setfsuid", ctypes.c_uint32(theirs.uid))
            if _file_system_ids() != (theirs.uid, theirs.gid):
                raise PermissionError(errno.EPERM, "cannot act as the target's user")
        _set_effective(capabilities, wanted)
        yield
    finally:
        if not is_same:
            raw_syscall("setfsuid", ctypes.c_uint32(uid))
            raw_syscall("setfsgid", ctypes.c_uint32(gid))
            _set_groups(groups)
        _set_effective(capabilities, effective)


def read_capabilities() -> tuple[int, ...]:
    """Return this thread's capabilities: effective, permitted, inheritable; low bits, then high."""
    data = ctypes.create_string_buffer(_CAPABILITY_DATA.size)
    raw_syscall("capget", ctypes.create_string_buffer(_CAPABILITY_HEADER, 8), data)
    return _CAPABILITY_DATA.unpack(data.raw)


def drop_capabilities() -> None:
    """Give up all capabilities of this thread, for good."""
    _set_capabilities((0,) * 6)


def _set_effective(capabilities: tuple[int, ...], effective: int) -> None:
    low, high = effective & 0xFFFFFFFF, effective >> 32
    _set_capabilities((low, *capabilities[1:3], high, *capabilities[4:]))


def _set_capabilities(capabilities: tuple[int, ...]) -> None:
    data = ctypes.create_string_buffer(_CAPABILITY_DATA.pack(*capabilities), _CAPABILITY_DATA.size)
    raw_syscall("capset", ctypes.create_string_buffer(_CAPABILITY_HEADER, 8), data)


def _set_groups(groups: list[int]) -> None:
    raw_syscall("setgroups", len(groups), (ctypes.c_uint32 * len(groups))(*groups))


def _file_system_ids() -> tuple[int, int]:
    nothing = ctypes.c_uint32(_NOBODY_ELSE)
    return raw_syscall("setfsuid", nothing), raw_syscall("setfsgid", nothing)
