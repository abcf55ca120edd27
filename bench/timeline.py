"""Measure the timeline: lanes and heat maps of 10^6 and 10^7 intervals, and the size of answers.

    python bench/timeline.py [--quick] [--intervals 1000000 10000000] [--threads 32]

Needs no target. Time is CPU time of the only thread. The ratio compares a view of the long
recording with the same view of the short one: 1 means that a view costs the same, however long the
recording is.
"""

from __future__ import annotations

import argparse
import gzip
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import orjson

import benchmark
from benchmark import Bench, run
from flametap.model import Clock
from flametap.recording.profile.store import Profile
from flametap.timeline.encode_lanes import encode_heat, encode_lanes
from flametap.timeline.heat import HeatQuery, heat
from flametap.timeline.lanes import LaneQuery, lanes
from flametap.timeline.time_ahead import TimeAhead
from flametap.timeline.time_sums import TimeSums
from flametap.wire.events import Batch
from reporting import Data, Table
from store import BATCH_ROWS, resident_mb, rows

SECOND = 10**9
TRACES = 1000  # stacks do not matter here: all are one


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--intervals", type=int, nargs=2, default=(1_000_000, 10_000_000))
    parser.add_argument("--threads", type=int, default=32)


def fill(profile: Profile, ahead: TimeAhead, n: int, n_threads: int) -> dict[str, float]:
    """Fill a profile with intervals, as a recording does; return what was made ahead of views.

    Returns:
        chunk_ms: the longest step; percent: the time of all steps, of that of the recording.
    """
    steps = []
    rng = np.random.default_rng(1)
    for batch in range(n // BATCH_ROWS):
        records = rows(rng, batch, TRACES, n_threads)
        records["trace_id"] = 0
        profile.apply(Batch(batch, int(records["t0_ns"].max()), [], [], [], [], records))
        start = time.thread_time()
        ahead.step()
        steps.append(time.thread_time() - start)
    percent = 100 * sum(steps) * SECOND / profile.duration_ns
    return {"chunk_ms": 1000 * max(steps), "percent": percent}


def views(
    sums: TimeSums, duration_ns: int, n_threads: int
) -> dict[str, Callable[[], dict[str, Any]]]:
    """Return what is measured, in this order."""
    middle = duration_ns // 2

    def lanes_of(**query: Any) -> Callable[[], dict[str, Any]]:
        return lambda: encode_lanes(lanes(sums, LaneQuery(**query)), 1)

    def heat_of(**query: Any) -> Callable[[], dict[str, Any]]:
        return lambda: encode_heat(heat(sums, HeatQuery(**query)), 1)

    wide = {"n_bins": 1440, "n_lanes": 32, "overview_bins": 720}
    found = {"all, the first time": lanes_of(**wide), "all": lanes_of(**wide)}
    for seconds in (1, 10, 60, 300):
        end = middle + seconds * SECOND
        found[f"{seconds} s"] = lanes_of(start_ns=middle, end_ns=end, **wide)
    newest = lanes(sums, LaneQuery(n_bins=600)).bins.level
    last = duration_ns - 3 * SECOND
    found["newest bins, 4 lanes"] = lanes_of(start_ns=last, level=newest, overview_bins=600)
    some = frozenset(range(1, n_threads, 4))
    for kind in ("cpu", "waits"):
        found[f"heat, {kind}, the first time"] = heat_of(kind=kind)
        found[f"heat, {kind}"] = heat_of(kind=kind)
        found[f"heat, {kind}, some threads, first"] = heat_of(kind=kind, thread_ids=some)
    return found


def measure(options: argparse.Namespace, _folder: Path) -> dict[str, Any]:
    """Fill two profiles and measure the views of each."""
    sizes = [n // 10 if options.quick else n for n in options.intervals]
    measured = []
    for n in sizes:
        profile = Profile()
        before_mb = resident_mb()
        sums = TimeSums(profile.moments)
        made = fill(profile, TimeAhead(sums, profile), n, options.threads)
        benchmark.say(f"{n:,} intervals: made ahead: {made}")
        found = {}
        for what, view in views(sums, profile.duration_ns, options.threads).items():
            start = time.thread_time()
            answer = view()
            took_s = time.thread_time() - start
            size = len(gzip.compress(orjson.dumps(answer), 1))
            found[what] = {"seconds": took_s, "bytes": size}
            benchmark.say(f"{n:,} intervals: {what}: {1000 * took_s:.0f} ms, {size:,} bytes")
        whole = lanes(sums, LaneQuery()).all.sums_ns
        assert abs(whole[0] - profile.total_ns(Clock.CPU)) < 1e-6 * whole[0]
        held_mb = resident_mb() - before_mb
        measured.append({"intervals": n, "views": found, "held_mb": held_mb, "ahead": made})
    return {"profiles": measured, "settings": {"threads": options.threads}}


def tables(data: Data) -> list[Table]:
    short, long = data["profiles"]
    table_rows = []
    for what, one in short["views"].items():
        other = long["views"][what]
        times = [1000 * one["seconds"], 1000 * other["seconds"]]
        table_rows.append(
            [
                what,
                *(f"{ms:.0f}" for ms in times),
                f"{times[1] / times[0]:.1f}",
                f"{other['bytes']:,}",
            ]
        )
    remark = (
        f"{short['intervals']:,} and {long['intervals']:,} intervals of"
        f" {data['settings']['threads']} threads; {long['held_mb']:.0f} MB for the longer"
        f" one. Made ahead as it grows: {long['ahead']['percent']:.1f} % of a CPU, at most"
        f" {long['ahead']['chunk_ms']:.0f} ms at once. Bars: a view 0.5 s, an answer 100 kB."
    )
    header = ("view", "short, ms", "long, ms", "ratio", "bytes, long")
    return [Table("The timeline", header, table_rows, remark)]


BENCH = Bench(
    "timeline",
    "the timeline alone: lanes and heat maps of 10⁶ and 10⁷ intervals; needs no target",
    arguments,
    measure,
    tables,
)

if __name__ == "__main__":
    run(BENCH)
