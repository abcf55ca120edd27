"""The ring that the agent writes and the host reads: ``struct ring_header`` and the bytes after it,
drawn in ``agent/abi.h``.

Does no I/O: it reads a buffer that somebody else has mapped. Not thread-safe, but for
:meth:`Ring.beat`, which writes a word that nobody else does.
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

# Positions in the header taken as an array of u64.
_RING_BYTES, _HEAD, _TAIL, _START, _NOW, _STOPPED = 2, 3, 4, 5, 6, 7
_STOP_REASON, _HOST, _BUDGET, _COUNTERS = 8, 9, 10, 11


class Ring:
    """The host's end of the ring that the agent writes: one reader, one writer.

    Args:
        buffer: writable, the whole ring as mapped. The ring keeps it exported until :meth:`close`.

    The u64 fields are read and written through a memoryview of native words, which is one load or
    store each: a ``struct`` with a byte order would go byte by byte and could see half of an
    update. x86-64 keeps stores in order, so what the agent wrote before it moved ``head`` is there.
    """

    def __init__(self, buffer: bytearray | memoryview | Any) -> None:
        view = memoryview(buffer).cast("B")
        if len(view) < RING_HEADER_BYTES:
            raise ProtocolError(f"ring of {len(view)} bytes is smaller than its header")
        self._view = view
        self._words = view[:RING_HEADER_BYTES].cast("Q")

    def check(self) -> None:
        """Raise :class:`ProtocolError` unless this is a ring of our version that fits into the
        buffer.
        """
        magic, version, _, ring_bytes, *_ = RING_HEADER.unpack_from(self._view)
        if magic != RING_MAGIC:
            raise ProtocolError(f"ring starts with {magic:#x} instead of {RING_MAGIC:#x}")
        if version != ABI_VERSION:
            raise ProtocolError(f"ring has version {version}, this flametap reads {ABI_VERSION}")
        if ring_bytes == 0 or ring_bytes & (ring_bytes - 1):
            raise ProtocolError(f"ring of {ring_bytes} bytes is not a power of two")
        if RING_HEADER_BYTES + ring_bytes > len(self._view):
            raise ProtocolError(f"ring of {ring_bytes} bytes does not fit into its mapping")

    def read(self) -> bytes:
        """Return everything written since the last call, and only then let the agent use that room
        again.
        """
        ring_bytes = self._words[_RING_BYTES]
        head, tail = self._words[_HEAD], self._words[_TAIL]
        if not 0 <= head - tail <= ring_bytes:
            raise ProtocolError(f"ring positions make no sense: head {head}, tail {tail}")
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
        self._words[_TAIL] = head
        return data

    def counters(self) -> dict[str, int]:
        """All counters by name (``COUNTER_TICKS_LATE`` is ``ticks_late``); abi.h says what each
        counts.
        """
        return {name: self._words[_COUNTERS + i] for i, name in enumerate(COUNTER_NAMES)}

    def handler_histogram(self) -> list[int]:
        """Signal handler runs per bucket of :data:`HANDLER_HISTOGRAM_NS`; the last holds all that
        took longer.
        """
        first = _COUNTERS + COUNTER_COUNT
        return list(self._words[first : first + HANDLER_HISTOGRAM_BUCKETS])

    def handler_quantiles_ns(self) -> tuple[int, int]:
        """Median and 99th percentile of the handler's time: upper ends of their buckets; 0 when it
        never ran.
        """
        histogram = self.handler_histogram()
        total = sum(histogram)
        found: list[int] = []
        for share in (0.5, 0.99):
            seen = 0
            for bucket, count in enumerate(histogram):
                seen += count
                if total and seen >= share * total:
                    found.append((bucket + 1) * HANDLER_HISTOGRAM_NS)
                    break
        return (found[0], found[1]) if total else (0, 0)

    @property
    def start_ns(self) -> int:
        """When sampling began, CLOCK_MONOTONIC; 0 before."""
        return self._words[_START]

    @property
    def now_ns(self) -> int:
        """When the last round of the sampler took place, CLOCK_MONOTONIC."""
        return self._words[_NOW]

    @property
    def stopped(self) -> bool:
        """True once the last batch is in place."""
        return self._words[_STOPPED] != 0

    @property
    def stop_reason(self) -> int:
        """Why the agent stopped: one of ``abi.STOP_*``."""
        return self._words[_STOP_REASON]

    def beat(self, now_ns: int) -> None:
        """Tell the agent that the host lives: an agent without a beat for
        ``abi.HOST_SILENCE_NS`` stops.
        """
        self._words[_HOST] = now_ns

    def set_budget(self, budget_ppm: int) -> None:
        """What sampling may cost, in millionths of a core; 0 for no limit."""
        self._words[_BUDGET] = budget_ppm

    def close(self) -> None:
        """Let go of the buffer, so that its mapping can be closed."""
        self._words.release()
        self._view.release()
