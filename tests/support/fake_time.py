"""What the threads of a made-up server do over time: the part of ``FakeSource`` below the timeline.

The intervals go through a real ``Profile``. There are bursts of work every ten seconds, and threads
of each kind.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import wire
from flametap.recording.profile.store import Profile
from flametap.timeline.heat import Heat, HeatQuery, heat
from flametap.timeline.lanes import LaneQuery, Lanes, lanes
from flametap.timeline.time_sums import TimeSums
from flametap.wire.decoder import Decoder

START_NS = 5 * 10**12
STEP_NS = 10_000_000
BATCH_NS = 4 * 10**9
EPOLL_WAIT, FUTEX, READ, NANOSLEEP = 232, 202, 0, 35
# What a thread does when it does not run, most often first.
KINDS = ((EPOLL_WAIT, READ), (FUTEX, FUTEX), (READ, FUTEX), (NANOSLEEP, EPOLL_WAIT))


class FakeTime:
    """Threads that work and wait, as time advances.

    Args:
        names: of the threads; their ids are 1, 2, …
    """

    def __init__(self, names: Sequence[str]) -> None:
        self._random = random.Random(11)
        self._now_ns = START_NS
        self._count = len(names)
        self.profile = Profile()
        self._sums = TimeSums(self.profile.moments)
        threads = [wire.thread(at, 41872 + at, name) for at, name in enumerate(names, 1)]
        self._apply(threads=threads)

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        end_ns = self._now_ns + int(seconds * 1e9)
        while self._now_ns < end_ns:
            self._advance_to(min(end_ns, self._now_ns + BATCH_NS))

    def _advance_to(self, end_ns: int) -> None:
        rows = []
        for t0_ns in range(self._now_ns, end_ns, STEP_NS):
            lasts_ns = min(STEP_NS, end_ns - t0_ns)
            second = (t0_ns - START_NS) / 1e9
            for thread in range(1, self._count + 1):
                rows += self._step(thread, t0_ns, lasts_ns, second)
        self._now_ns = end_ns
        self._apply(intervals=rows)

    def _step(self, thread: int, t0_ns: int, lasts_ns: int, second: float) -> list[bytes]:
        chance = self._random.random()
        is_burst = second % 10 < 2.5
        load = (0.85 if is_burst else 0.35) / (1 + thread / 3)
        ran_ns = int(lasts_ns * min(1.0, load * (0.5 + chance))) if chance < 2 * load else 0
        queued_ns = int((lasts_ns - ran_ns) * chance * 0.6) if is_burst and chance < 0.4 else 0
        wait_ns = lasts_ns - ran_ns - queued_ns
        first, second_call = KINDS[thread % len(KINDS)]
        sysno = first if chance < 0.8 else second_call
        rows = []
        if ran_ns:
            rows.append(wire.interval(thread, 0, t0_ns, ran_ns, ran_ns))
        if queued_ns:
            rows.append(wire.interval(thread, 0, t0_ns + ran_ns, queued_ns, 0, wire.QUEUED))
        if wait_ns:
            at_ns = t0_ns + ran_ns + queued_ns
            rows.append(wire.interval(thread, 0, at_ns, wait_ns, 0, wire.PARKED, sysno=sysno))
        return rows

    def _apply(self, **sections: Any) -> None:
        for batch in Decoder().feed(wire.batch(self._now_ns, **sections)):
            self.profile.apply(batch)

    def lanes(self, query: LaneQuery) -> Lanes:
        """See ``Views.lanes``."""
        return lanes(self._sums, query)

    def heat(self, query: HeatQuery) -> Heat:
        """See ``Views.heat``."""
        return heat(self._sums, query)
