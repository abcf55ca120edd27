"""Keep files open while their symbols are read, and say with whose rights they are opened.

What a target names is opened below its root and with its user's rights (``linux.open_beneath``):
its modules, and the files that their debug information names. With our rights, and following any
link, we open only what our own user chose: files and folders on the command line, the cache of
downloads, and in ``/usr/lib/debug`` of this machine the files named by a build-id.

Only regular files are opened, so no device and no FIFO ever is.

Source: proc(5), "/proc/pid/root".
"""

from __future__ import annotations

import contextlib
import os
import zlib
from typing import NamedTuple

from ...linux.file_rights import ProcessUser, acting_as
from ...linux.open_beneath import open_place, open_regular, real_path, reopen_regular
from ..object.elf import ElfError
from ..object.object_file import ObjectFile
from ..object.open_object import open_object

MEMORY = "memory"  # the origin of an image that was copied from the target
# To compute a CRC, we read the whole file. Most larger files have a build-id.
MAX_CRC_BYTES = 1 << 30


class Root(NamedTuple):
    """Where paths begin, and with whose rights they are opened."""

    path: str = ""  # of ours, which the target cannot change; "" for our own root
    user: ProcessUser | None = None  # None: with our rights

    def open(self, path: str, via: str = "") -> int:
        """Open a regular file; for arguments and errors see ``open_regular``."""
        if self == OURS:
            return reopen_regular(os.open(via or path, os.O_PATH | os.O_CLOEXEC), path)
        return open_regular(path, self.path, via, self.user)

    def real_path(self, path: str) -> str:
        """Return a path below this root without links. Only a name, see ``open_beneath``.

        Raises:
            OSError: it does not exist, or may not be reached.
        """
        if self == OURS:
            return os.path.realpath(path)
        return real_path(path, self.path, self.user)

    def names_in(self, folder: str) -> list[str]:
        """Return the names in a folder below this root.

        Raises:
            OSError: it cannot be read.
        """
        place = open_place(folder, self.path, self.user)
        try:
            with acting_as(self.user):
                return os.listdir(f"/proc/self/fd/{place}")
        finally:
            os.close(place)


OURS = Root()


class OpenFile:
    """A regular file, open for reading from any thread.

    Args:
        path: the path below ``root``.
        root: the root, and whose rights decide.
        via: another path that leads to the same file (a link in ``/proc`` to a deleted one).
        descriptor: the file, if it was opened before; it is closed with this object.

    Raises:
        OSError: it cannot be opened, or is not a regular file.
    """

    def __init__(
        self, path: str, root: Root = OURS, via: str = "", descriptor: int | None = None
    ) -> None:
        self.path = path
        self.root = root
        self._fd = root.open(path, via) if descriptor is None else descriptor
        status = os.fstat(self._fd)
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
            path = self.root.real_path(path)
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
    root: Root = OURS,
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
    return image_of(OpenFile(path, root, via), origin, build_id=build_id, arch=arch)


def image_of(file: OpenFile, origin: str = "", *, build_id: str = "", arch: str = "") -> Image:
    """Return the object file in an open file; for arguments and errors see ``open_image``.

    The file is closed if it is none.
    """
    try:
        return Image(open_object(file.read, file.size, build_id, arch), file, origin)
    except BaseException:
        file.close()
        raise


def debug_image(image: Image | None, debug: Image | None) -> Image | None:
    """Return the image with DWARF: the module's own file, or its separate debug file."""
    for candidate in (image, debug):
        if candidate is not None and candidate.elf.debug_info_bytes:
            return candidate
    return None
