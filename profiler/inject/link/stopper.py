"""Stop a thread of the target for a moment, to read or change something of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol


class Stopper(Protocol):
    """Stops threads of one process, one at a time.

    Attributes:
        pid: the process.
    """

    pid: int

    def look(self, tid: int, read: Callable[[], object]) -> None:
        """Stop a thread, call ``read`` while it is stopped, and let it continue.

        ``read`` runs on the thread that traces. Nothing happens if the thread does not stop in
        time, or is about to take a signal.
        """
        ...
