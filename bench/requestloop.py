"""Measure requests per second and latency of a request loop under each profiler and without one.

One client sends one request at a time, to each of the server's threads in turn. Before and after
the window of each profiler there is one without a profiler, to compare with. One of the "profilers"
is none at all: it shows the noise.

A request takes about 150 µs of work in a chain of 15 calls. Server and client share one CPU, so
that a request takes the same time in every window: on several CPUs the scheduler keeps both on one
at times and at times does not, a difference of 15 % without any profiler. The profiler's process
runs where it likes; its thread in the target, if it has one, shares the CPU with the server.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import benchmark
import peers
import programs
from reporting import Data, Table
from stats import MISSING, spread_text

NOBODY = "no profiler"
SETTLE_S = 0.7  # after an attach: unwind tables, symbols of the profiler itself


@dataclass(frozen=True)
class Window:
    """The client's measurements in one window."""

    requests: int
    wall_ns: int
    p50_ns: int
    p99_ns: int
    max_ns: int

    @property
    def per_second(self) -> float:
        return self.requests / self.wall_ns * 1e9


@contextlib.contextmanager
def _on_one_cpu() -> Iterator[None]:
    """Start programs on one of our CPUs."""
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(allowed)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, allowed)


class Loop:
    """A server and its client, both running."""

    def __init__(self, folder: Path, server: Callable[[Path, int], programs.Program], n: int):
        path = folder / "socket"
        path.unlink(missing_ok=True)
        with _on_one_cpu():
            self.server = server(path, n)
            try:
                self.client = programs.Program([folder / "client", path, str(n)])
            except BaseException:
                self.server.close()
                raise
        self.window(0.5)  # all threads have begun

    def window(self, seconds: float) -> Window:
        self.client.ask()
        time.sleep(seconds)
        return Window(*map(int, self.client.ask().split()))

    def close(self) -> None:
        self.client.close()
        self.server.close()


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--threads", type=int, nargs="+", default=[2, 16, 159], help="of the server"
    )
    parser.add_argument("--rates", type=float, nargs="+", default=[100.0, 1000.0], help="Hz")
    parser.add_argument("--seconds", type=float, default=1.5, help="length of a window")
    parser.add_argument("--peers", nargs="+", help="only these, by name")


def measure(
    options: argparse.Namespace,
    folder: Path,
    server: Callable[[Path, int], programs.Program],
    compared: Sequence[peers.Peer],
) -> dict[str, Any]:
    """Measure all peers at all rates and numbers of threads; one dict per window in ``windows``."""
    programs.build("client", folder)
    if options.quick:
        options.threads, options.seconds = options.threads[:1], 0.8
    chosen = [peer for peer in compared if not options.peers or peer.name in options.peers]
    present = [peer for peer in chosen if not peer.missing]
    cells: list[tuple[peers.Peer | None, float]] = [(None, 0.0)]
    for one in present:
        cells += [(one, rate) for rate in (options.rates if one.has_rate else [0.0])]
    windows: list[dict[str, Any]] = []
    for round_number, n in benchmark.interleaved(options.threads, options.minutes):
        for peer, rate, outcome in _round(folder, server, n, cells, options.seconds, round_number):
            name = peer.name if peer else NOBODY
            windows.append({"threads": n, "peer": name, "rate_hz": rate, **outcome})
            said = outcome.get("error") or f"{100 * outcome['slowdown']:.1f} % slower"
            benchmark.say(f"{n} threads, {name} at {rate:.0f} Hz: {said}")
    return {
        "windows": windows,
        "missing": [peer.name for peer in chosen if peer.missing],
        "settings": {"seconds": options.seconds, "minutes": options.minutes, "one_cpu": True},
    }


def _round(
    folder: Path,
    server: Callable[[Path, int], programs.Program],
    n: int,
    cells: Sequence[tuple[peers.Peer | None, float]],
    seconds: float,
    round_number: int,
) -> Iterator[tuple[peers.Peer | None, float, dict[str, Any]]]:
    """Measure every peer once on one server, which is restarted if a peer breaks it."""
    loop: Loop | None = None
    before: Window | None = None
    try:
        for _, (peer, rate) in benchmark.interleaved(cells, 0, seed=round_number):
            try:
                if loop is None:
                    loop, before = Loop(folder, server, n), None
                before = before or loop.window(seconds / 2)
                outcome = _watch(loop, peer, rate, folder / "output", seconds)
                after = loop.window(seconds / 2)
            except benchmark.FAILURES as error:
                yield peer, rate, {"error": f"{error}"[:200]}
                if loop is not None:
                    loop.close()
                loop = None
                continue
            usual = (before.per_second + after.per_second) / 2
            outcome["slowdown"] = 1 - outcome["per_second"] / usual
            outcome["usual_p99_ns"] = (before.p99_ns + after.p99_ns) / 2
            yield peer, rate, outcome
            before = after
    finally:
        if loop is not None:
            loop.close()


def _watch(
    loop: Loop, peer: peers.Peer | None, rate: float, output: Path, seconds: float
) -> dict[str, Any]:
    """Measure one window under one profiler."""
    output.unlink(missing_ok=True)
    if peer is None:
        window = loop.window(seconds)
        return {**asdict(window), "per_second": window.per_second}
    began = time.monotonic()
    running = peer.start(loop.server.pid, rate, output, peer.options)
    try:
        time.sleep(SETTLE_S)
        first = running.mark()
        window = loop.window(seconds)
        last = running.mark()
    finally:
        ran_s = time.monotonic() - began
        ended = running.stop()
    if not ended.samples and ended.note:
        raise RuntimeError(f"no samples: {ended.note}")
    core = window.wall_ns / 100
    errors = {} if ended.errors_percent is None else {"errors_percent": ended.errors_percent}
    return {
        **asdict(window),
        "per_second": window.per_second,
        "host_cpu_percent": (last.host_cpu_ns - first.host_cpu_ns) / core,
        "sampler_cpu_percent": (last.target_cpu_ns - first.target_cpu_ns) / core,
        "stacks_per_second": ended.samples / ran_s,
        **errors,
    }


def tables(data: Data, what: str) -> list[Table]:
    """Return one table for each number of threads."""
    windows = data["windows"]
    found = []
    for n in dict.fromkeys(sorted(one["threads"] for one in windows)):
        rows = []
        of_n = [one for one in windows if one["threads"] == n]
        for peer, rate in _keys(of_n):
            cell = [one for one in of_n if (one["peer"], one["rate_hz"]) == (peer, rate)]
            rows.append(_row(peer, rate, cell))
        rows += [[name, *["missing"] * 8] for name in data["missing"]]
        found.append(
            Table(
                f"{what}, {n} threads",
                (
                    *("profiler", "rate, Hz", "slowdown, %", "p99, µs", "p99, × without"),
                    *(
                        "slowest request, ms",
                        "profiler's CPU, % of a core",
                        "stacks/s",
                        "errors, %",
                    ),
                ),
                rows,
            )
        )
    seconds = data["settings"]["seconds"]
    remark = (
        f"Median (range) over windows of {seconds:g} s, each compared with those without a"
        " profiler just before and after it. The first line shows the noise."
        + (" Server and client share one CPU." if data["settings"].get("one_cpu") else "")
        + " With one request at a time, a long stop is one slow request: see the slowest."
        " CPU of flametap: its process + its thread in the target. gdb runs at its own rate;"
        " stacks/s counts what each profiler calls a sample, including its start. Errors are"
        " what the profiler itself counts: samples that failed; of flametap, CPU time whose stack"
        " did not reach its root or whose Python frames are in doubt."
    )
    return [*found[:-1], *(Table(t.title, t.columns, t.rows, remark) for t in found[-1:])]


def _keys(windows: Sequence[dict[str, Any]]) -> list[tuple[str, float]]:
    """Return (peer, rate), no profiler first, then in the order of ``peers.ALL``."""
    order = [NOBODY, *(peer.name for peer in (peers.FLAMETAP_IN_BUDGET, *peers.ALL))]
    order.append(peers.TACHYON_NAME)
    keys = {(one["peer"], one["rate_hz"]) for one in windows}
    return sorted(keys, key=lambda key: (key[1], order.index(key[0])))


def _column(windows: Sequence[dict[str, Any]], name: str) -> list[float]:
    return [one[name] for one in windows if name in one]


def _row(peer: str, rate: float, cell: Sequence[dict[str, Any]]) -> list[str]:
    failures = [one["error"] for one in cell if "error" in one]
    if len(failures) == len(cell):
        return [peer, f"{rate:.0f}" if rate else MISSING, f"failed: {failures[0]}", *[MISSING] * 6]
    p99 = _column(cell, "p99_ns")
    host = spread_text(_column(cell, "host_cpu_percent"))
    sampler = _column(cell, "sampler_cpu_percent")
    if any(sampler):
        host += f" + {spread_text(sampler)}"
    return [
        peer + (f" ({len(failures)} of {len(cell)} failed)" if failures else ""),
        f"{rate:.0f}" if rate else MISSING,
        spread_text(_column(cell, "slowdown"), 1, 100),
        spread_text(p99, 0, 1e-3),
        spread_text([one["p99_ns"] / one["usual_p99_ns"] for one in cell if "p99_ns" in one], 1),
        spread_text(_column(cell, "max_ns"), 1, 1e-6),
        host,
        spread_text(_column(cell, "stacks_per_second"), 0),
        spread_text(_column(cell, "errors_percent"), 2),
    ]
