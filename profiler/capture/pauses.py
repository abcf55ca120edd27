"""Tell how much of a recording was paused."""

from __future__ import annotations

import time


class Pauses:
    """The pauses of a recording, by the target's clock: from its last batch before each one."""

    def __init__(self) -> None:
        self._past: list[tuple[int, int]] = []  # start, duration
        self._start_ns = 0
        self._began_ns: int | None = None  # by our own clock, which may differ from the target's

    def set(self, paused: bool, now_ns: int) -> None:
        """Begin a pause, or end it; does nothing if it is as it was.

        Args:
            paused: whether it is paused from now on.
            now_ns: time of the target's last batch.
        """
        if paused and self._began_ns is None:
            self._start_ns, self._began_ns = now_ns, time.monotonic_ns()
        elif not paused and self._began_ns is not None:
            self._past.append((self._start_ns, time.monotonic_ns() - self._began_ns))
            self._began_ns = None

    def until(self, now_ns: int) -> int:
        """Return how long the recording was paused.

        Args:
            now_ns: time of the target's last batch. In a pause, what follows it is not counted yet.
        """
        past = sum(min(lasted, max(0, now_ns - start)) for start, lasted in self._past)
        is_paused = self._began_ns is not None
        return past + (max(0, now_ns - self._start_ns) if is_paused else 0)
