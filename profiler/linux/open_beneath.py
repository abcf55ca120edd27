"""Open the files that a target names: below its root, regular ones only, with its rights.

The target may change every folder of a path while we follow it. So the kernel follows the path and
keeps it below the root (openat2 with RESOLVE_IN_ROOT): absolute links and ``..`` end there, and
links of procfs that lead anywhere (RESOLVE_NO_MAGICLINKS) are refused. Other mounts are followed: a
target's programs and sources often lie on several (so no RESOLVE_NO_XDEV). Kernels before 5.6, and
sandboxes, lack openat2; there we follow the path folder by folder with descriptors, and no step
follows a link.

A file is first opened as a mere place (O_PATH), which has no effect on a FIFO or a device. It is
opened for reading once it is known to be a regular file, and through its descriptor, so that it is
still the same one.

Source: openat2(2), open(2), symlink(7), path_resolution(7); proc(5), "/proc/pid/fd".
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import stat
import struct
from collections.abc import Iterator

from .file_rights import ProcessUser, acting_as
from .maps import Mapping
from .raw_syscall import raw_syscall

_OPEN_HOW = struct.Struct("=QQQ")  # struct open_how: flags, mode, resolve
_RESOLVE_NO_MAGICLINKS, _RESOLVE_IN_ROOT = 0x02, 0x10
_PLACE = os.O_PATH | os.O_CLOEXEC
_FOLDER = _PLACE | os.O_DIRECTORY
# The kernel gives up (EAGAIN) if something was renamed while it went up a folder.
_TRIES = 16
_MAX_LINKS = 40  # the kernel's own limit


def open_place(path: str, root: str = "", user: ProcessUser | None = None) -> int:
    """Open what a path names below a root, as a place (O_PATH).

    Args:
        path: the path as a process with that root sees it; links are followed as it would.
        root: a folder that the target cannot change, such as ``/proc/PID/root``; ``""`` for ours.
        user: whose rights decide; ours by default.

    Raises:
        OSError: it does not exist, or may not be reached.
        ValueError: the path has a NUL.
    """
    with _opened(root or "/", _FOLDER) as folder, acting_as(user):
        return _open_below(path, folder)


def open_regular(path: str, root: str = "", via: str = "", user: ProcessUser | None = None) -> int:
    """Open a regular file for reading; for arguments and errors see ``open_place``.

    Args:
        path: the path below the root.
        root: the root.
        via: a path of ours that the target cannot change and that leads to the same file: a link in
            ``/proc`` to a mapped one. It is followed with our rights, the file is read with theirs.
        user: whose rights decide.

    Raises:
        OSError: also if it is not a regular file.
    """
    if via:
        with _opened(via, _PLACE) as place, acting_as(user):
            return reopen_regular(os.dup(place), path)
    with _opened(root or "/", _FOLDER) as folder, acting_as(user):
        return reopen_regular(_open_below(path, folder), path)


def real_path(path: str, root: str = "", user: ProcessUser | None = None) -> str:
    """Return a path below a root without links; for arguments and errors see ``open_place``.

    Only a name: what it leads to later must be opened with ``open_place`` again.
    """
    with _opened(root or "/", _FOLDER) as folder, acting_as(user):
        place, real = _walk(path, folder)
    os.close(place)
    return real


def open_mapped_file(user: ProcessUser, mapping: Mapping) -> int | None:
    """Return a descriptor of the file behind a process's mapping, or None if it cannot be reached.

    ``map_files`` needs CAP_CHECKPOINT_RESTORE; without it, the path is followed as the process sees
    it, with its rights. For many files, pass one ``ProcessUser``: a new one reads procfs.
    """
    links = [f"{user.folder}/map_files/{mapping.span}", *([] if mapping.is_deleted else [""])]
    for via in links:
        with contextlib.suppress(OSError):
            return open_regular(mapping.path, f"{user.folder}/root", via, user)
    return None


def reopen_regular(place: int, path: str) -> int:
    """Open a place for reading if it is a regular file, and close the place.

    Raises:
        OSError: it is none, or may not be read; the error names ``path``.
    """
    try:
        mode = os.fstat(place).st_mode
        if not stat.S_ISREG(mode):
            kind = errno.EISDIR if stat.S_ISDIR(mode) else errno.EINVAL
            raise OSError(kind, "not a regular file", path)
        return os.open(f"/proc/self/fd/{place}", os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    finally:
        os.close(place)


@contextlib.contextmanager
def _opened(path: str, flags: int) -> Iterator[int]:
    descriptor = os.open(path, flags)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _open_below(path: str, folder: int) -> int:
    name = os.fsencode(path)
    if b"\0" in name:
        raise ValueError("embedded null byte")
    how = _OPEN_HOW.pack(_PLACE, 0, _RESOLVE_IN_ROOT | _RESOLVE_NO_MAGICLINKS)
    for _ in range(_TRIES):
        try:
            return raw_syscall("openat2", folder, name, how, ctypes.c_size_t(_OPEN_HOW.size))
        except OSError as error:
            if error.errno == errno.EAGAIN:
                continue
            if error.errno in (errno.ENOSYS, errno.EPERM):
                break
            raise OSError(error.errno, error.strerror, path) from None
    place, _ = _walk(path, folder)
    return place


def _walk(path: str, root: int) -> tuple[int, str]:
    """Follow a path below a folder; return a descriptor of its end, and the path without links."""
    steps: list[tuple[int, str]] = []  # descriptors from below the root to here, and their names
    rest = path.split("/")[::-1]
    links = 0

    def up() -> None:
        if steps:
            os.close(steps.pop()[0])

    try:
        while rest:
            part = rest.pop()
            if part in ("", "."):
                continue
            if part == "..":
                up()
                continue
            here = steps[-1][0] if steps else root
            place = os.open(part, _PLACE | os.O_NOFOLLOW, dir_fd=here)
            if not stat.S_ISLNK(os.fstat(place).st_mode):
                steps.append((place, part))
                continue
            try:
                goal = os.readlink("", dir_fd=place)
            finally:
                os.close(place)
            links += 1
            if links > _MAX_LINKS:
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
            if goal.startswith("/"):
                while steps:
                    up()
            rest += goal.split("/")[::-1]
        return os.dup(steps[-1][0] if steps else root), "".join(f"/{part}" for _, part in steps)
    except OSError as error:
        raise OSError(error.errno, error.strerror, path) from None
    finally:
        while steps:
            up()
