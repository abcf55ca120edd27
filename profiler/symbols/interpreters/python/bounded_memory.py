"""Limit what may be read of a process in one look, whatever its structures claim."""

from __future__ import annotations

import time

from ....linux.process_memory import MemoryReadError, ProcessMemory


class LimitReached(MemoryReadError):
    """The look has used up its reads, its bytes or its time."""


class BoundedMemory(ProcessMemory):
    """The memory of a process, for so many reads, bytes and seconds.

    Args:
        folder: ``/proc/PID``.
        reads, read_bytes, seconds: the limits.
    """

    def __init__(
        self,
        folder: str,
        reads: int = 1_000_000,
        read_bytes: int = 256 << 20,
        seconds: float = 5.0,
    ) -> None:
        super().__init__(folder)
        self._reads, self._bytes = reads, read_bytes
        self._end_s = time.monotonic() + seconds

    def read_some(self, runtime_addr: int, size: int) -> bytes:
        """As the base class.

        Raises:
            LimitReached: one of the limits is.
        """
        self._reads -= 1
        self._bytes -= size
        if self._reads < 0 or self._bytes < 0 or time.monotonic() > self._end_s:
            raise LimitReached("the process has more than may be read of it")
        return super().read_some(runtime_addr, size)
