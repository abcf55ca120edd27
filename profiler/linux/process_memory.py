"""Read the memory of another process, in pieces of a bounded size.

Through ``/proc/PID/mem``, which is opened once: after an exec of the process it still stands for
the old memory and gives errors, never bytes of the new program. A piece that crosses into memory
that cannot be read is an error as a whole, unless fewer bytes are allowed.

Any thread may read. A page that a hostile process serves itself (userfaultfd, FUSE) may make a read
wait for ever: callers that must not wait read in a thread of their own.

Source: proc(5), "/proc/pid/mem".
"""

from __future__ import annotations

import os
import struct

MAX_READ_BYTES = 256 << 20  # of one call: the largest file that is copied out of a process
_WORD = struct.Struct("<Q")
_MAX_ADDR = (1 << 63) - 1  # of pread(2); user space ends far below


class MemoryReadError(Exception):
    """An address cannot be read: nothing is mapped there, or the process has gone."""


class ProcessGoneError(MemoryReadError):
    """The process has ended, or has become another program."""


class ProcessMemory:
    """The memory of one process, open for reading until ``close``.

    Args:
        folder: the process's folder in procfs, ``/proc/PID``.

    Raises:
        OSError: there is no such process, or we may not trace it.
    """

    def __init__(self, folder: str) -> None:
        self._fd = os.open(f"{folder}/mem", os.O_RDONLY | os.O_CLOEXEC)

    def __enter__(self) -> ProcessMemory:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file. Idempotent."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def read_some(self, runtime_addr: int, size: int) -> bytes:
        """Return up to ``size`` bytes: those before the first that cannot be read.

        Raises:
            MemoryReadError: none can be read, or more than ``MAX_READ_BYTES`` are asked for.
        """
        if not 0 <= size <= MAX_READ_BYTES or not 0 <= runtime_addr <= _MAX_ADDR - size:
            raise MemoryReadError(f"{size} bytes at {runtime_addr:#x} are out of bounds")
        try:
            data = os.pread(self._fd, size, runtime_addr)
        except OSError as error:
            raise MemoryReadError(f"{runtime_addr:#x}: {error.strerror}") from error
        if not data and size:
            raise ProcessGoneError(f"{runtime_addr:#x}: the process has gone")
        return data

    def read(self, runtime_addr: int, size: int) -> bytes:
        """Return exactly ``size`` bytes.

        Raises:
            MemoryReadError: not all can be read.
        """
        data = self.read_some(runtime_addr, size)
        if len(data) != size:
            raise MemoryReadError(f"{runtime_addr + len(data):#x} cannot be read")
        return data

    def word(self, runtime_addr: int) -> int:
        """Return the u64 at an address.

        Raises:
            MemoryReadError: it cannot be read.
        """
        number: int = _WORD.unpack(self.read(runtime_addr, 8))[0]
        return number

    def integer(self, runtime_addr: int, size: int, *, signed: bool = False) -> int:
        """Return the little-endian integer of ``size`` bytes at an address.

        Raises:
            MemoryReadError: it cannot be read.
        """
        return int.from_bytes(self.read(runtime_addr, size), "little", signed=signed)
