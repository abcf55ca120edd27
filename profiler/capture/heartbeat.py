"""The sign of life that the agent waits for: a small thread of its own, so that neither a slow
pump nor a long computation makes the agent believe that its host is gone.

The agent stops by itself after ``abi.HOST_SILENCE_NS`` without one
(``agent/sampling/host_watchdog.c``).
"""

from __future__ import annotations

import threading
import time

from ..wire.ring import Ring

BEAT_INTERVAL_S = 0.2


class Heartbeat:
    """Beats from construction until :meth:`stop`, which is to be called before the ring closes."""

    def __init__(self, ring: Ring) -> None:
        self._ring = ring
        self._stopping = threading.Event()
        ring.beat(time.monotonic_ns())
        self._thread = threading.Thread(target=self._loop, daemon=True, name="flametap-heartbeat")
        self._thread.start()

    def stop(self) -> None:
        """End; the ring is not touched any more. May be called again."""
        self._stopping.set()
        self._thread.join()

    def _loop(self) -> None:
        while not self._stopping.wait(BEAT_INTERVAL_S):
            self._ring.beat(time.monotonic_ns())
