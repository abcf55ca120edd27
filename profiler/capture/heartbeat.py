"""Send the agent a regular heartbeat, which shows that the host is alive.

The heartbeat has its own thread: a slow pump or a long computation does not delay it. The agent
stops by itself after ``abi.HOST_SILENCE_NS`` without a heartbeat
(``agent/sampling/host_watchdog.c``).
"""

from __future__ import annotations

import threading
import time

from ..wire.ring import Ring

BEAT_INTERVAL_S = 0.5


class Heartbeat:
    """A heartbeat from construction until :meth:`stop`. Call that before the ring is closed."""

    def __init__(self, ring: Ring) -> None:
        self._ring = ring
        self._stopping = threading.Event()
        ring.beat(time.monotonic_ns())
        self._thread = threading.Thread(target=self._loop, daemon=True, name="flametap-heartbeat")
        self._thread.start()

    def stop(self) -> None:
        """Stop the heartbeat; afterwards its thread no longer uses the ring. Idempotent."""
        self._stopping.set()
        self._thread.join()

    def _loop(self) -> None:
        while not self._stopping.wait(BEAT_INTERVAL_S):
            self._ring.beat(time.monotonic_ns())
