"""An alternate signal stack, and the place where a thread of the target writes its own.
sigaltstack(2)"""

from __future__ import annotations

from typing import NamedTuple

from ...wire import control_abi as abi
from .target_memory import TargetMemory

NO_ANSWER = b"\xff" * abi.ALTERNATE.size


class Alternate(NamedTuple):
    """Where it is: runtime_addr and bytes, 0 bytes for none."""

    start: int
    size_bytes: int


REFUSED = Alternate(0, -1)
"""It can never be asked for."""


class Answer:
    """The place for an answer, in ``struct boot``.

    Args:
        memory: of the target.
        boot_addr: runtime_addr of ``struct boot``.

    Attributes:
        addr: runtime_addr of the place.
    """

    def __init__(self, memory: TargetMemory, boot_addr: int) -> None:
        self._memory = memory
        self.addr = boot_addr + abi.AT_ALTERNATE

    def clear(self) -> None:
        """Make sure that there is none.

        Raises:
            OSError: the process has ended.
        """
        self._memory.write(self.addr, NO_ANSWER)

    def read(self) -> Alternate | None:
        """Return what a thread has written, None for nothing."""
        found = self._memory.read(self.addr, abi.ALTERNATE.size)
        if len(found) < abi.ALTERNATE.size or found == NO_ANSWER:
            return None
        start, _, size_bytes = abi.ALTERNATE.unpack(found)
        return Alternate(start, size_bytes)
