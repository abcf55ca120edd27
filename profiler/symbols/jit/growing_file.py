"""A file that the target goes on writing: opened only if it is the target's own, read on from where
reading stopped, begun anew when it was truncated, written over or replaced.

Anybody may put something into ``/tmp`` under the name that a profiler will look for, so what is
read must be a regular file, no link, of the target's user or of root (perf has that rule), and
written since the target runs: process ids come again, and the files of the last one stay.

Source: open(2), ``O_PATH``, ``O_NOFOLLOW``; tools/perf/util/symbol.c has the rule on owners.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from enum import Enum

# Compared before reading on: was the file only appended to?
_TAIL_BYTES = 256


class Growth(Enum):
    """What became of the file since it was looked at last."""

    NONE = 0
    MORE = 1  # there is something to read behind what was read
    ANEW = 2  # it is another file, or was written over: what was read holds no more


class AppendedFile:
    """See the module docstring.

    Args:
        path: as the user knows it, for messages.
        open_place: opens what is there with ``O_PATH | O_NOFOLLOW``.
        owners: user ids of whom a file is taken, as of now.
        not_before_s: a file changed last before that is an earlier process's (``time.time``).

    Attributes:
        position: how far it was read.
        refusal: why it is not read, ``""`` when it is, or is not there.
    """

    def __init__(
        self,
        path: str,
        open_place: Callable[[], int],
        owners: Callable[[], frozenset[int]],
        not_before_s: float = 0.0,
    ) -> None:
        self.path = path
        self.position = 0
        self.refusal = ""
        self._open_place = open_place
        self._owners = owners
        self._not_before_s = not_before_s
        self._fd = -1
        self._identity = (0, 0)
        self._size = 0
        self._modified_ns = 0
        self._tail = b""

    @property
    def is_open(self) -> bool:
        """Is there a file to read?"""
        return self._fd >= 0

    @property
    def unread(self) -> int:
        """Bytes behind ``position`` when it was looked at last."""
        return max(self._size - self.position, 0)

    def look(self) -> Growth:
        """Has it grown? Opens it when it is there for the first time, or was replaced."""
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
        """Up to ``size`` bytes anywhere; nothing when the file cannot be read."""
        try:
            return os.pread(self._fd, max(size, 0), file_offset) if self._fd >= 0 else b""
        except (OSError, OverflowError):
            return b""

    def go_on_at(self, position: int) -> None:
        """Say how far it was read."""
        self.position = position
        length = min(position, _TAIL_BYTES)
        self._tail = self.read_at(position - length, length)

    def close(self) -> None:
        """Gives the descriptor back; may be called again."""
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
        """Opens what has the name now, if it is another file than the open one."""
        try:
            place = self._open_place()
        except OSError as error:
            # Gone with its process, or deleted: what is open still has the names.
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
