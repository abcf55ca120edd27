"""Count the changes of a capture, and wait for the next one.

Any thread may report a change, and any number of threads may wait. The lock is the innermost one:
no other lock is taken while it is held.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

AWAITED_S = 1.0  # after a wait: the next one is likely to follow


class Revision:
    """The sum of other revisions and of its own steps. It never decreases.

    Args:
        parts: functions without arguments that take no lock and return a number that never
            decreases. Call ``notify`` after one of these numbers has grown.
    """

    def __init__(self, *parts: Callable[[], int]) -> None:
        self._parts = parts
        self._steps = 0
        self._changed = threading.Condition()
        self._awaited_s = 0.0

    def current(self) -> int:
        """Return the current revision."""
        return self._steps + sum(part() for part in self._parts)

    def is_awaited(self) -> bool:
        """Return whether somebody waits for a change, or did a moment ago."""
        return time.monotonic() < self._awaited_s + AWAITED_S

    def notify(self) -> None:
        """Wake all waiting threads. Call it after a part has grown."""
        with self._changed:
            self._changed.notify_all()

    def step(self) -> None:
        """Count a change that no part counts, and wake all waiting threads."""
        with self._changed:
            self._steps += 1
            self._changed.notify_all()

    def wait_newer(self, revision: int, timeout_s: float) -> int:
        """Wait until the revision differs from ``revision`` or time is up; return it."""
        self._awaited_s = time.monotonic() + timeout_s
        with self._changed:
            self._changed.wait_for(lambda: self.current() != revision, timeout_s)
            return self.current()
