"""Limit the memory of a recording. The target decides how fast its tables grow, so each has an end.

The sizes below are what one entry costs, with the names that are found for it and with what a view
of the recording needs while it is built; measured with CPython 3.12 and numpy 2, and rounded up.
``tests/hostile/test_memory.py`` compares them with the memory of the process.
"""

from __future__ import annotations

# 10^7 samples fit, with 3 million nodes and 200 000 addresses: more than a page can show. It is a
# quarter of a small machine.
TABLES_BYTES = 512 << 20
# 16 million samples with their moments. The sums of older ones are kept.
INTERVALS_BYTES = 256 << 20

NODE_BYTES = 384
STACK_BYTES = 128
TRACE_BYTES = 4
ADDRESS_BYTES = 1024
CELL_BYTES = 160
THREAD_BYTES = 1024
MODULE_BYTES = 8192
PROCESS_BYTES = 2048
# There are some ten of them.
HIDDEN_THREAD_BYTES = 4096


class Budget:
    """The bytes that the tables of one recording may still take. Not thread-safe.

    Args:
        total_bytes: at the beginning.
    """

    def __init__(self, total_bytes: int = TABLES_BYTES) -> None:
        self._left_bytes = total_bytes

    def has(self, n_bytes: int) -> bool:
        """Return True if so many bytes are left."""
        return n_bytes <= self._left_bytes

    def spend(self, n_bytes: int) -> None:
        """Take bytes, even if fewer are left."""
        self._left_bytes -= n_bytes

    def take(self, n_bytes: int) -> bool:
        """Take bytes if they are left; return whether they were."""
        if not self.has(n_bytes):
            return False
        self._left_bytes -= n_bytes
        return True
