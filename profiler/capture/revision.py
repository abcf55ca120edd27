"""The number that says whether a capture has news, and a way to wait for a larger one.

Any thread may tell of news, any number may wait. The lock is the innermost one: nothing else is
taken while it is held.
"""

from __future__ import annotations

import threading
from collections.abc import Callable


class Revision:
    """Sum of other revisions and of own steps; grows only.

    Args:
        parts: functions that return a number which only grows, and take no lock. Call ``notify``
            after one of these numbers has grown.
    """

    def __init__(self, *parts: Callable[[], int]) -> None:
        self._parts = parts
        self._steps = 0
        self._changed = threading.Condition()

    def current(self) -> int:
        """Return the number as of now."""
        return self._steps + sum(part() for part in self._parts)

    def notify(self) -> None:
        """Wake those who wait: a part has grown."""
        with self._changed:
            self._changed.notify_all()

    def step(self) -> None:
        """Count a change that is in no part, and wake those who wait."""
        with self._changed:
            self._steps += 1
            self._changed.notify_all()

    def wait_newer(self, revision: int, timeout_s: float) -> int:
        """Wait until the number is not ``revision``, at most ``timeout_s``; return the number."""
        with self._changed:
            self._changed.wait_for(lambda: self.current() != revision, timeout_s)
            return self.current()
