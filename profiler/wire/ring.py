"""Read the ring that the agent writes: ``struct ring_header`` and the bytes after it, drawn in
``agent/abi.h``.

The target can write anything into the buffer at any time. So each word is read once, and the copy
is checked and used. The size of the ring and the position up to which we have read are never read
from the buffer at all.

No I/O: the caller maps the buffer. Not thread-safe, except for :meth:`Ring.beat`, which is the only
writer of its word.
"""

from __future__ import annotations

from typing import Any

from .abi import (
    ABI_VERSION,
    COUNTER_COUNT,
    COUNTER_NAMES,
    HANDLER_HISTOGRAM_BUCKETS,
    HANDLER_HISTOGRAM_NS,
    RING_HEADER,
    RING_HEADER_BYTES,
    RING_MAGIC,
)
from .decoder import ProtocolError

# Indexes into the header as an array of u64.
_HEAD, _TAIL, _START, _NOW, _STOPPED = 3, 4, 5, 6, 7
_STOP_REASON, _HOST, _BUDGET, _COUNTERS = 8, 9, 10, 11
# No counter gets there. Sums of a few such numbers fit into 64 bits.
_MAX_COUNT = 1 << 56


class Ring:
    """The host's end of the ring that the agent writes: one reader, one writer.

    Args:
        buffer: writable, the whole ring as mapped. The ring keeps it exported until :meth:`close`.

    The u64 fields are accessed through a memoryview of native words, with one load or store each. A
    ``struct`` with a byte order would access single bytes and could read half of an update. x86-64
    keeps stores in order, so the bytes that the agent wrote before it moved ``head`` are visible.
    """

    def __init__(self, buffer: bytearray | memoryview | Any) -> None:
        view = memoryview(buffer).cast("B")
        if len(view) < RING_HEADER_BYTES:
            raise ProtocolError(f"ring of {len(view)} bytes is smaller than its header")
        self._view = view
        self._ring_bytes = len(view) - RING_HEADER_BYTES
        self._tail = 0
        self._words = view[:RING_HEADER_BYTES].cast("Q")

    def check(self) -> None:
        """Check that this is a ring of our version that fills the buffer.

        Raises:
            ProtocolError: it is not.
        """
        magic, version, _, ring_bytes, *_ = RING_HEADER.unpack_from(self._view)
        if magic != RING_MAGIC:
            raise ProtocolError(f"ring starts with {magic:#x} instead of {RING_MAGIC:#x}")
        if version != ABI_VERSION:
            raise ProtocolError(f"ring has version {version}, this flametap reads {ABI_VERSION}")
        if ring_bytes == 0 or ring_bytes & (ring_bytes - 1):
            raise ProtocolError(f"ring of {ring_bytes} bytes is not a power of two")
        if ring_bytes != self._ring_bytes:
            raise ProtocolError(f"ring of {ring_bytes} bytes in a mapping for {self._ring_bytes}")

    def read(self) -> bytes:
        """Return all bytes written since the last call, and free their space for the agent.

        Raises:
            ProtocolError: the positions in the header are impossible.
        """
        ring_bytes, head, tail = self._ring_bytes, self._words[_HEAD], self._tail
        if not 0 <= head - tail <= ring_bytes:
            raise ProtocolError(f"ring positions are invalid: head {head}, tail {tail}")
        if head == tail:
            return b""
        start = RING_HEADER_BYTES + tail % ring_bytes
        until_end = min(head - tail, RING_HEADER_BYTES + ring_bytes - start)
        rest = head - tail - until_end
        data = b"".join(
            (
                self._view[start : start + until_end],
                self._view[RING_HEADER_BYTES : RING_HEADER_BYTES + rest],
            )
        )
        self._words[_TAIL] = self._tail = head
        return data

    def counters(self) -> dict[str, int]:
        """Return all counters by name (``COUNTER_TICKS_LATE`` is ``ticks_late``); see abi.h."""
        return {
            name: min(self._words[_COUNTERS + i], _MAX_COUNT)
            for i, name in enumerate(COUNTER_NAMES)
        }

    def handler_histogram(self) -> list[int]:
        """Return the number of signal handler runs by duration.

        ``bucket_end_ns`` tells where one ends; the last one includes all longer runs.
        """
        first = _COUNTERS + COUNTER_COUNT
        buckets = self._words[first : first + HANDLER_HISTOGRAM_BUCKETS].tolist()
        return [min(count, _MAX_COUNT) for count in buckets]

    def handler_quantiles_ns(self) -> tuple[int, int]:
        """Return the median and the 99th percentile of the handler's duration, in nanoseconds.

        Each is the upper bound of its bucket; 0 if the handler never ran.
        """
        histogram = self.handler_histogram()
        total = sum(histogram)
        found: list[int] = []
        for share in (0.5, 0.99):
            seen = 0
            for bucket, count in enumerate(histogram):
                seen += count
                if total and seen >= share * total:
                    found.append(bucket_end_ns(bucket))
                    break
        return (found[0], found[1]) if total else (0, 0)

    @property
    def start_ns(self) -> int:
        """Start of sampling, CLOCK_MONOTONIC; 0 before it."""
        return self._words[_START]

    @property
    def now_ns(self) -> int:
        """Time of the sampler's last round, CLOCK_MONOTONIC."""
        return self._words[_NOW]

    @property
    def stopped(self) -> bool:
        """True once the agent has written its last batch."""
        return self._words[_STOPPED] != 0

    @property
    def stop_reason(self) -> int:
        """The reason why the agent stopped: one of ``abi.STOP_*``."""
        return self._words[_STOP_REASON]

    def beat(self, now_ns: int) -> None:
        """Send a heartbeat: the agent stops after ``abi.HOST_SILENCE_NS`` without one.

        Args:
            now_ns: CLOCK_MONOTONIC.
        """
        self._words[_HOST] = now_ns

    def set_budget(self, budget_ppm: int) -> None:
        """Limit the CPU time of sampling, in millionths of a core; 0 for no limit."""
        self._words[_BUDGET] = budget_ppm

    def close(self) -> None:
        """Release the buffer, so that its mapping can be closed."""
        self._words.release()
        self._view.release()


def bucket_end_ns(bucket: int) -> int:
    """Return up to which time a bucket of the handler's histogram reaches; see abi.h."""
    doublings, part = divmod(bucket - 1, 4)
    return (HANDLER_HISTOGRAM_NS << doublings) * (5 + part) // 4 if bucket else HANDLER_HISTOGRAM_NS
