"""What waits to be sent, on disk: at most so much, the newest."""

from __future__ import annotations

import contextlib
import os
import tempfile
import threading
from collections import deque
from typing import NamedTuple

MAX_BYTES = 64 << 20


class Segment(NamedTuple):
    """A piece of a recording."""

    path: str
    n_bytes: int
    from_s: float  # time of day
    until_s: float


class Spool:
    """A queue of segments in a folder of its own. Any thread may call.

    Args:
        max_bytes: of all that waits; older segments are dropped.

    Attributes:
        n_dropped: segments that found no room.

    Raises:
        OSError: the folder cannot be made.
    """

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self.folder = tempfile.mkdtemp(prefix="flametap-push-")
        self._max_bytes = max_bytes
        self._waiting: deque[Segment] = deque()
        self._n_bytes = 0
        self._number = 0
        self.n_dropped = 0
        self._lock = threading.Lock()

    def add(self, data: bytes, from_s: float, until_s: float) -> None:
        """Add a segment. Raises OSError: it is dropped."""
        with self._lock:
            self._number += 1
            number = self._number
        path = os.path.join(self.folder, f"{number:06}-{from_s:.0f}.pb.gz")
        try:
            with open(path, "xb") as file:
                file.write(data)
        except OSError:
            self.n_dropped += 1
            with contextlib.suppress(OSError):
                os.unlink(path)
            raise
        with self._lock:
            self._waiting.append(Segment(path, len(data), from_s, until_s))
            self._n_bytes += len(data)
            while self._n_bytes > self._max_bytes and len(self._waiting) > 1:
                self._remove(self._waiting[0])
                self.n_dropped += 1

    def first(self) -> Segment | None:
        """Return what is to be sent next."""
        with self._lock:
            return self._waiting[0] if self._waiting else None

    def remove(self, segment: Segment) -> None:
        """Remove one: it has been sent, or never will be."""
        with self._lock:
            if segment in self._waiting:
                self._remove(segment)

    def __len__(self) -> int:
        return len(self._waiting)

    def close(self) -> None:
        """Remove the folder, if nothing waits in it."""
        with contextlib.suppress(OSError):
            os.rmdir(self.folder)

    def _remove(self, segment: Segment) -> None:
        self._waiting.remove(segment)
        self._n_bytes -= segment.n_bytes
        with contextlib.suppress(OSError):
            os.unlink(segment.path)
