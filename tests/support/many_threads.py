"""A recording of ten thousand threads, for lists of threads."""

from __future__ import annotations

import functools

import wire
from flametap.wire import abi
from flametap.wire.decoder import Decoder
from flametap.wire.events import Batch
from growing import Growing
from profiles import EPOLL_WAIT, NAMES, WORK_ADDR

COUNT = 10_000
EXITED = 8  # so many, the first
FIRST_TID = 5_000
START_NS = 10**12
US = 1_000
DURATION_NS = 20_000 * US
STEP_NS = 10_000 * US


class ManyThreads(Growing):
    """Thread ``at`` runs for ``at`` µs from the start on, and waits for as long at the end."""

    def __init__(self) -> None:
        super().__init__()
        self._now_ns = START_NS + DURATION_NS
        self.begin(_first(), NAMES)

    def advance(self) -> None:
        """Let 10 ms pass: each thread runs for a microsecond, and waits again."""
        t0_ns = self._now_ns
        self._now_ns += STEP_NS
        intervals = [
            record
            for at in range(EXITED, COUNT)
            for record in (
                wire.interval(at + 1, 1, t0_ns, US, US),
                _wait(at, t0_ns + US, self._now_ns),
            )
        ]
        self.feed(self._now_ns, intervals=intervals)


@functools.cache
def _first() -> Batch:
    now_ns = START_NS + DURATION_NS
    intervals = [
        record
        for at in range(COUNT)
        for record in (
            wire.interval(at + 1, 1, START_NS, at * US, at * US),
            _wait(at, now_ns - at * US, now_ns),
        )
    ]
    (batch,) = Decoder().feed(
        wire.batch(
            now_ns,
            modules=[wire.module(1, "/opt/prog")],
            threads=[_thread(at) for at in range(COUNT)],
            traces=[wire.trace(1, [WORK_ADDR])],
            intervals=intervals,
        )
    )
    return batch


def _thread(at: int) -> bytes:
    name = f"{'io' if at % 4 else 'worker'}-{at}"
    flags = abi.THREAD_EXITED if at < EXITED else 0
    return wire.thread(at + 1, FIRST_TID + at, name, flags=flags, first_seen_ns=START_NS)


def _wait(at: int, t0_ns: int, now_ns: int) -> bytes:
    return wire.interval(
        *(at + 1, 1, t0_ns, now_ns - t0_ns, 0, wire.PARKED), sysno=EPOLL_WAIT, is_open=True
    )
