"""Files held open while their symbols are read, found by a path in the target's root or in ours.

A path is taken apart here and not by the kernel, because ``/proc/PID/root`` is only the start of
it: an absolute link below would lead to our own root, and ``..`` out of the target's. What a path
leads to is looked at before it is opened, so that no device and no FIFO is ever touched.

Source: proc(5), "/proc/pid/root"; symlink(7); open(2), ``O_PATH``.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import zlib
from typing import NamedTuple

from ..object.elf import ElfError
from ..object.object_file import ObjectFile
from ..object.open_object import open_object

MEMORY = "memory"  # the origin of an image that was copied from the target
_MAX_LINKS = 40  # as in the kernel's walk
# A file's CRC is read in full; what is larger has a build-id, or is not worth the minutes.
MAX_CRC_BYTES = 1 << 30


class OpenFile:
    """A regular file held open for reading from any thread.

    Args:
        path: as seen below ``root``.
        root: ``""`` for ours, or ``/proc/PID/root``.
        via: another path that leads to the same file (a link of ``/proc`` to a deleted one).

    Raises:
        OSError: it cannot be opened, or is no regular file.
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
        """The descriptor, to be passed on; it stays ours."""
        return self._fd

    def folder(self) -> str:
        """The folder that the file is in, links followed, below its root."""
        path = self.path
        with contextlib.suppress(OSError):  # deleted by now
            path = resolve(path, self.root)[len(self.root) :]
        return os.path.dirname(path)

    def read(self, offset: int, size: int) -> bytes:
        """Up to ``size`` bytes at a file_offset.

        Raises:
            ElfError: the file cannot be read (any more).
        """
        try:
            return os.pread(self._fd, size, offset)
        except (OSError, OverflowError, MemoryError) as error:
            raise ElfError(f"cannot read {self.path}: {error}") from error

    def crc32(self) -> int:
        """CRC-32 of the whole file, as ``.gnu_debuglink`` holds it.

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
        """Gives the descriptor back; may be called again."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


class Image(NamedTuple):
    """An object file, what it is read from (``None``: bytes in memory), and where that was found,
    in words.
    """

    elf: ObjectFile
    file: OpenFile | None
    origin: str = ""

    def close(self) -> None:
        """Closes the file, if there is one."""
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
    """Opens an object file; for the arguments see ``OpenFile``, ``Image`` and ``open_object``.

    Raises:
        OSError: it cannot be opened, or is no regular file.
        ObjectError: it is not an object file that we can read.
    """
    file = OpenFile(path, root, via)
    try:
        return Image(open_object(file.read, file.size, build_id, arch), file, origin)
    except BaseException:
        file.close()
        raise


def resolve(path: str, root: str = "") -> str:
    """A path of ours to what ``path`` means to a process with that root.

    Raises:
        OSError: it does not exist, or its links go in circles.
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
    """The one with DWARF: the module's own file, or its separate debug file."""
    for candidate in (image, debug):
        if candidate is not None and candidate.elf.debug_info_bytes:
            return candidate
    return None
