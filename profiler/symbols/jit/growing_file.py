"""Follow a file to which the target keeps writing.

The file is opened only if it belongs to the target. Reading continues where it stopped. If the file
was truncated, overwritten or replaced, reading starts again at the beginning.

Anybody may create a file in ``/tmp`` under the name that a profiler expects. So the file must be a
regular file and not a link. Its owner must be the target's user or root, as in perf. And it must
have been modified since the target started: a pid may be reused, and the files of an earlier
process remain.

Source: open(2), ``O_PATH``, ``O_NOFOLLOW``; tools/perf/util/symbol.c has the rule on owners.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from enum import Enum

from ...linux.file_rights import ProcessUser, acting_as

# The last bytes read; compared with the file to detect that it was overwritten.
_TAIL_BYTES = 256


class Growth(Enum):
    """The change of the file since the last look."""

    NONE = 0
    MORE = 1  # there is more to read
    ANEW = 2  # it is another file, or was overwritten: what was read is no longer valid


class AppendedFile:
    """A file that grows; see the module docstring.

    Args:
        path: its path for messages, as the user knows it.
        open_place: opens the file with ``O_PATH | O_NOFOLLOW``.
        owners: returns the ids of the users whose files are accepted.
        not_before_s: a file last modified before this time belongs to an earlier process
            (``time.time``).
        user: whose rights decide whether it may be read; ours by default.

    Attributes:
        position: the offset up to which it was read.
        refusal: the reason why it is not read; ``""`` if it is read, or does not exist.
    """

    def __init__(
        self,
        path: str,
        open_place: Callable[[], int],
        owners: Callable[[], frozenset[int]],
        not_before_s: float = 0.0,
        user: ProcessUser | None = None,
    ) -> None:
        self.path = path
        self.position = 0
        self.refusal = ""
        self._open_place = open_place
        self._owners = owners
        self._user = user
        self._not_before_s = not_before_s
        self._fd = -1
        self._identity = (0, 0)
        self._size = 0
        self._modified_ns = 0
        self._tail = b""

    @property
    def is_open(self) -> bool:
        """True if there is a file to read."""
        return self._fd >= 0

    @property
    def unread(self) -> int:
        """Number of bytes after ``position`` at the last look."""
        return max(self._size - self.position, 0)

    def look(self) -> Growth:
        """Check whether the file has grown. Opens it when it first exists, or was replaced."""
        opened = self._reopen()
        if self._fd < 0:
            return Growth.NONE
        status = os.fstat(self._fd)
        if opened or self._written_over(status):
            self._size, self._modified_ns = status.st_size, status.st_mtime_ns
            self.position, self._tail = 0, b""
            return Growth.ANEW
        self._size, self._modified_ns = status.st_size, status.st_mtime_ns
        return Growth.MORE if self.unread else Growth.NONE

    def read_at(self, file_offset: int, size: int) -> bytes:
        """Return up to ``size`` bytes at any offset; none if the file cannot be read."""
        try:
            return os.pread(self._fd, max(size, 0), file_offset) if self._fd >= 0 else b""
        except (OSError, OverflowError):
            return b""

    def go_on_at(self, position: int) -> None:
        """Set the offset up to which the file was read."""
        self.position = position
        length = min(position, _TAIL_BYTES)
        self._tail = self.read_at(position - length, length)

    def close(self) -> None:
        """Close the file. Idempotent."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _written_over(self, status: os.stat_result) -> bool:
        if status.st_size < self.position:
            return True
        if status.st_mtime_ns == self._modified_ns:
            return False
        tail = self.read_at(self.position - len(self._tail), len(self._tail))
        return tail != self._tail or status.st_size == self._size

    def _reopen(self) -> bool:
        """Open the file that has the name now, if it is not the open one."""
        try:
            with acting_as(self._user):
                return self._open()
        except PermissionError as error:  # we cannot act as that user
            self.refusal = error.strerror or str(error)
            return False

    def _open(self) -> bool:
        try:
            place = self._open_place()
        except OSError as error:
            # The file was deleted, or its process has ended. The open file still has the names.
            if self._fd < 0 and not isinstance(error, (FileNotFoundError, ProcessLookupError)):
                self.refusal = error.strerror or str(error)
            return False
        try:
            status = os.fstat(place)
            identity = (status.st_dev, status.st_ino)
            if self._fd >= 0 and identity == self._identity:
                return False
            self.refusal = self._why_not(status)
            if self.refusal:
                return False
            fd = os.open(f"/proc/self/fd/{place}", os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except OSError as error:
            self.refusal = error.strerror or str(error)
            return False
        finally:
            os.close(place)
        self.close()
        self._fd, self._identity = fd, identity
        return True

    def _why_not(self, status: os.stat_result) -> str:
        if stat.S_ISLNK(status.st_mode):
            return "it is a symbolic link"
        if not stat.S_ISREG(status.st_mode):
            return "it is not a regular file"
        if status.st_uid not in self._owners():
            return f"it belongs to user {status.st_uid}, neither the target's nor root"
        if status.st_mtime < self._not_before_s:
            return "it is older than the process: left by an earlier one with the same number"
        return ""
