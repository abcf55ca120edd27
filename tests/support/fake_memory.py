"""The memory of a process that does not exist."""

from __future__ import annotations

from bisect import bisect_right

from flametap.linux.process_memory import MemoryReadError, ProcessMemory


class FakeMemory(ProcessMemory):
    """Pieces of bytes at addresses. Counts what is read of it."""

    def __init__(self, pieces: dict[int, bytes]) -> None:
        self._pieces = dict(sorted(pieces.items()))
        self._starts = list(self._pieces)
        self.reads = 0
        self._fd = -1

    def read_some(self, runtime_addr: int, size: int) -> bytes:
        """As the real one does."""
        self.reads += 1
        if runtime_addr < 0 or runtime_addr + size >= 1 << 63:
            raise MemoryReadError("out of bounds")
        index = bisect_right(self._starts, runtime_addr) - 1
        start = self._starts[index] if index >= 0 else 0
        data = self._pieces.get(start, b"")[runtime_addr - start :][:size]
        if not data:
            raise MemoryReadError(f"{runtime_addr:#x} cannot be read")
        return data
