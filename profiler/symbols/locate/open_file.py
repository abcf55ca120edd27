"""Keep files open while their symbols are read. Paths are relative to the target's root or to ours.

We resolve paths ourselves and not in the kernel. With ``/proc/PID/root`` as the start of a path, an
absolute link would lead into our own root, and ``..`` out of the target's. We check the type of a
file before we open it, so no device and no FIFO is ever opened.

Source: proc(5), "/proc/pid/root"; symlink(7); open(2), ``O_PATH``.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import zlib
from typing import NamedTuple

from ...linux.file_rights import ProcessUser
from ...linux.open_beneath import open_regular, reopen_regular
from ..object.elf import ElfError
from ..object.object_file import ObjectFile
from ..object.open_object import open_object

MEMORY = "memory"  # the origin of an image that was copied from the target
_MAX_LINKS = 40  # the kernel's limit, path_resolution(7)
# To compute a CRC, we read the whole file. Most larger files have a build-id.
MAX_CRC_BYTES = 1 << 30


class Root(NamedTuple):
    """Where paths begin, and with whose rights files are opened."""

    path: str = ""  # of ours, which the target cannot change; "" for our own root
    user: ProcessUser | None = None  # None: with our rights

    def open(self, path: str) -> int:
        """Open a regular file; for arguments and errors see ``open_regular``."""
        if self == OURS:
            return reopen_regular(os.open(path, os.O_PATH | os.O_CLOEXEC), path)
        return open_regular(path, self.path, user=self.user)


OURS = Root()


class OpenFile:
    """A regular file, open for reading from any thread.

    Args:
        path: the path below ``root``.
        root: ``""`` for ours, or ``/proc/PID/root``.
        via: another path that leads to the same file (a link in ``/proc`` to a deleted one).

    Raises:
        OSError: it cannot be opened, or is not a regular file.
    """

    def __init__(self, path: str, root: str = "", via: str = "") -> None:
        self.path = path
        self.root = root
        place = os.open(via or resolve(path, root), os.O_PATH | os.O_CLOEXEC)
        try:
            status = os.fstat(place)
            if not stat.S_ISREG(status.st_mode):
                kind = errno.EISDIR if stat.S_ISDIR(status.st_mode) else errno.EINVAL
                raise OSError(kind, "not a regular file", path)
            self._fd = os.open(f"/proc/self/fd/{place}", os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        finally:
            os.close(place)
        self.size = status.st_size
        self.inode = status.st_ino
        self.modified_ns = status.st_mtime_ns

    def fileno(self) -> int:
        """Return the descriptor, to be sent to another process. It stays open here."""
        return self._fd

    def folder(self) -> str:
        """Return the folder of the file below its root, with links resolved."""
        path = self.path
        with contextlib.suppress(OSError):  # the file was deleted
            path = resolve(path, self.root)[len(self.root) :]
        return os.path.dirname(path)

    def read(self, offset: int, size: int) -> bytes:
        """Return up to ``size`` bytes at a file_offset.

        Raises:
            ElfError: the file can no longer be read.
        """
        try:
            return os.pread(self._fd, size, offset)
        except (OSError, OverflowError, MemoryError) as error:
            raise ElfError(f"cannot read {self.path}: {error}") from error

    def crc32(self) -> int:
        """Return the CRC-32 of the whole file, as in ``.gnu_debuglink``.

        Raises:
            ElfError: it cannot be read, or is too large for that.
        """
        if self.size > MAX_CRC_BYTES:
            raise ElfError(f"{self.path} is too large to be checked")
        crc, offset = 0, 0
        while offset < self.size and (chunk := self.read(offset, 1 << 20)):
            crc = zlib.crc32(chunk, crc)
            offset += len(chunk)
        return crc

    def close(self) -> None:
        """Close the file. Idempotent."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


class Image(NamedTuple):
    """An object file, the open file (``None``: bytes in memory), and how it was found, in words."""

    elf: ObjectFile
    file: OpenFile | None
    origin: str = ""

    def close(self) -> None:
        """Close the file, if there is one."""
        if self.file is not None:
            self.file.close()


def open_image(
    path: str,
    root: str = "",
    via: str = "",
    origin: str = "",
    *,
    build_id: str = "",
    arch: str = "",
) -> Image:
    """Open an object file; for the arguments see ``OpenFile``, ``Image`` and ``open_object``.

    Raises:
        OSError: it cannot be opened, or is not a regular file.
        ObjectError: it is not an object file that we can read.
    """
    file = OpenFile(path, root, via)
    try:
        return Image(open_object(file.read, file.size, build_id, arch), file, origin)
    except BaseException:
        file.close()
        raise


def resolve(path: str, root: str = "") -> str:
    """Return our path of the file that ``path`` names for a process with that root.

    Raises:
        OSError: it does not exist, or its links form a loop.
    """
    if not root:
        return os.path.realpath(path)
    done: list[str] = []
    rest = path.split("/")[::-1]
    links = 0
    while rest:
        part = rest.pop()
        if part in ("", "."):
            continue
        if part == "..":
            del done[-1:]
            continue
        place = "/".join((root, *done, part))
        if not stat.S_ISLNK(os.lstat(place).st_mode):
            done.append(part)
            continue
        links += 1
        if links > _MAX_LINKS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
        goal = os.readlink(place)
        if goal.startswith("/"):
            done.clear()
        rest += goal.split("/")[::-1]
    return "/".join((root, *done))


def debug_image(image: Image | None, debug: Image | None) -> Image | None:
    """Return the image with DWARF: the module's own file, or its separate debug file."""
    for candidate in (image, debug):
        if candidate is not None and candidate.elf.debug_info_bytes:
            return candidate
    return None
