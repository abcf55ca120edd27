"""Memory of the target, read and written from outside. proc(5), ``/proc/PID/mem``."""

from __future__ import annotations

import os


class TargetMemory:
    """The memory of one process. Writing changes what is read-only there, too.

    Args:
        pid: the process.

    Raises:
        OSError: it may not be opened, or the process has gone.
    """

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.fd = os.open(f"/proc/{pid}/mem", os.O_RDWR | os.O_CLOEXEC)

    def read(self, start: int, size_bytes: int) -> bytes:
        """Read bytes from ``start`` (runtime_addr) on, fewer where the memory ends."""
        try:
            return os.pread(self.fd, size_bytes, start)
        except (OSError, OverflowError):
            return b""

    def write(self, start: int, what: bytes) -> None:
        """Write bytes from ``start`` (runtime_addr) on.

        Raises:
            OSError: they cannot be written; ``ProcessLookupError`` if the process has ended.
        """
        done = 0
        while done < len(what):
            written = os.pwrite(self.fd, what[done:], start + done)
            if not written:  # its memory has gone
                raise ProcessLookupError
            done += written

    def close(self) -> None:
        """Close the file. Idempotent."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1
