"""Random intervals of threads, and a straightforward sum of them in bins."""

from __future__ import annotations

import random
from collections import defaultdict
from typing import Any, NamedTuple

import wire
from flametap.model import Activity
from flametap.recording.profile.store import Profile
from flametap.recording.profile.time_bins import step_ns
from flametap.wire.decoder import Decoder
from wire import BLOCKED, PARKED, QUEUED, RUNNING

FUTEX, EPOLL_WAIT, READ, NANOSLEEP, WAIT4 = 202, 232, 0, 35, 61
ASLEEP = {
    FUTEX: Activity.LOCK,
    EPOLL_WAIT: Activity.POLL,
    READ: Activity.IO,
    NANOSLEEP: Activity.SLEEP,
    WAIT4: Activity.OTHER,
}
START_NS = 10**12


class Row(NamedTuple):
    """An interval."""

    thread: int
    t0_ns: int
    wall_ns: int
    cpu_ns: int
    state: int
    sysno: int
    is_open: bool = False


def apply(profile: Profile, now_ns: int, rows: list[Row], **sections: Any) -> None:
    records = [
        wire.interval(row[0], 1, *row[1:4], row.state, sysno=row.sysno, is_open=row.is_open)
        for row in rows
    ]
    for batch in Decoder().feed(wire.batch(now_ns, intervals=records, **sections)):
        profile.apply(batch)


def random_rows(rng: random.Random, n: int, n_threads: int) -> list[Row]:
    at = dict.fromkeys(range(1, n_threads + 1), START_NS)
    rows = []
    for _ in range(n):
        thread = rng.randint(1, n_threads)
        wall = rng.choice((0, rng.randint(0, 10**6), rng.randint(0, 10**8), rng.randint(0, 10**10)))
        state = rng.choice((RUNNING, RUNNING, PARKED, BLOCKED, QUEUED))
        cpu = rng.choice((wall, rng.randint(0, wall))) if state == RUNNING else 0
        sysno = rng.choice(list(ASLEEP)) if state == PARKED else -1
        rows.append(Row(thread, at[thread], wall, cpu, state, sysno))
        at[thread] += wall + rng.choice((0, 0, rng.randint(0, 10**7)))
    return sorted(rows, key=lambda row: row.t0_ns)


def naive(rows: list[Row], level: int) -> dict[tuple[int, int], dict[int, float]]:
    """(thread, activity) → bin → nanoseconds, one interval and one bin after another."""
    found: dict[tuple[int, int], dict[int, float]] = defaultdict(lambda: defaultdict(float))
    step = step_ns(level)
    for row in rows:
        parts = {Activity.CPU: row.cpu_ns}
        if row.state == RUNNING:
            parts[Activity.QUEUED] = row.wall_ns - row.cpu_ns
        elif row.state == QUEUED:
            parts[Activity.QUEUED] = row.wall_ns
        else:
            activity = ASLEEP[row.sysno] if row.state == PARKED else Activity.OTHER
            parts[activity] = row.wall_ns
        start = row.t0_ns - START_NS
        end = start + row.wall_ns
        for activity, weight in parts.items():
            for at in range(start // step, end // step + 1):
                inside = min(end, (at + 1) * step) - max(start, at * step)
                share = inside / row.wall_ns if row.wall_ns else 1.0
                if weight and share > 0:
                    found[row.thread, activity][at] += weight * share
    return found
