"""Measure the profiler's CPU time for threads that do nothing, by number of threads.

    python bench/idle.py [--quick] [--minutes 3] [--threads 10 100 1000] [--rate 100]

The target's threads wait for locks, input and timeouts and never run. Measured are the CPU time of
flametap's thread inside the target and of every profiler's own process, without the attach. py-spy
and austin need a Python target, so there is one target in C and one in Python.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import benchmark
import peers
import programs
from benchmark import Bench, run
from reporting import Data, Table
from stats import MISSING, spread_text

SETTLE_S = 0.7
BAR_PERCENT = 10.0  # of one core, for 1 000 idle threads at 100 Hz


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--threads", type=int, nargs="+", default=[10, 100, 1000])
    parser.add_argument("--rate", type=float, default=100.0, help="Hz")
    parser.add_argument("--seconds", type=float, default=3.0, help="length of a window")


def measure(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    program = programs.build("idle", folder)
    if options.quick:
        options.seconds = 1.0
    by_kind = {"C": peers.FOR_ALL, "Python": peers.FOR_PYTHON}
    cells = [
        (kind, n, peer)
        for kind, compared in by_kind.items()
        for n in options.threads
        for peer in compared
        if not peer.missing and (kind == "Python" or peer is not peers.GDB)
    ]
    windows = []
    for _, (kind, n, peer) in benchmark.interleaved(cells, options.minutes):
        one: dict[str, Any] = {"target": kind, "threads": n, "peer": peer.name}
        try:
            with (
                programs.Program([program, str(n)])
                if kind == "C"
                else programs.python_program("idle", str(n))
            ) as target:
                one |= _watch(target.pid, peer, options, folder / "output")
            benchmark.say(f"{kind}, {n} threads, {peer.name}: {one['host_cpu_percent']:.2f} %")
        except benchmark.FAILURES as error:
            one["error"] = f"{error}"[:200]
            benchmark.say(f"{kind}, {n} threads, {peer.name}: {one['error']}")
        windows.append(one)
    return {
        "windows": windows,
        "missing": [peer.name for peer in peers.FOR_PYTHON if peer.missing],
        "settings": {"rate_hz": options.rate, "seconds": options.seconds},
    }


def _watch(pid: int, peer: peers.Peer, options: argparse.Namespace, output: Path) -> dict[str, Any]:
    output.unlink(missing_ok=True)
    running = peer.start(pid, options.rate, output, peer.options)
    try:
        time.sleep(SETTLE_S)
        began_ns, first = time.monotonic_ns(), running.mark()
        time.sleep(options.seconds)
        last, wall_ns = running.mark(), time.monotonic_ns() - began_ns
    finally:
        running.stop()
    core = wall_ns / 100
    return {
        "host_cpu_percent": (last.host_cpu_ns - first.host_cpu_ns) / core,
        "sampler_cpu_percent": (last.target_cpu_ns - first.target_cpu_ns) / core,
        "rounds_per_second": (last.rounds - first.rounds) / wall_ns * 1e9,
        "rss_kb": last.rss_kb,
    }


def tables(data: Data) -> list[Table]:
    windows = data["windows"]
    found = []
    counts = sorted({one["threads"] for one in windows})
    for kind in ("C", "Python"):
        names = [peer.name for peer in peers.ALL]
        present = {one["peer"] for one in windows if one["target"] == kind}
        rows = []
        for name in names:
            of = [one for one in windows if (one["target"], one["peer"]) == (kind, name)]
            if name in data["missing"] and kind == "Python":
                rows.append([name, *["missing"] * (len(counts) + 1)])
            elif name in present and name == peers.FLAMETAP.name:
                rows.append(
                    _row("flametap: thread in the target", of, counts, "sampler_cpu_percent")
                )
                rows.append(_row("flametap: its own process", of, counts, "host_cpu_percent"))
            elif name in present:
                rows.append(_row(name, of, counts, "host_cpu_percent"))
        columns = ["CPU, % of a core", *(f"{n} threads" for n in counts), "memory, MB"]
        found.append(Table(f"Idle threads, {kind} target", columns, rows))
    rate = data["settings"]["rate_hz"]
    ours = [one for one in windows if one["peer"] == peers.FLAMETAP.name]
    kept = [one["rounds_per_second"] for one in ours if one.get("rounds_per_second")]
    remark = (
        f"At {rate:g} Hz (flametap achieved {spread_text(kept, 0)}); gdb at its own rate."
        f" The limit is {BAR_PERCENT:g} % of a core for flametap's thread with 1000 idle threads."
        " perf's cost is in the kernel and in the target. Memory: of the profiler's process, with"
        " the most threads."
    )
    return [found[0], Table(found[1].title, found[1].columns, found[1].rows, remark)]


def _row(
    name: str, windows: Sequence[dict[str, Any]], counts: Sequence[int], field: str
) -> list[str]:
    cells = []
    for n in counts:
        of_n = [one for one in windows if one["threads"] == n]
        failures = [one["error"] for one in of_n if "error" in one]
        text = spread_text([one[field] for one in of_n if field in one], 2)
        cells.append(f"failed: {failures[0]}" if text == MISSING and failures else text)
    most = [one["rss_kb"] for one in windows if one["threads"] == counts[-1] and one.get("rss_kb")]
    memory = MISSING if field == "sampler_cpu_percent" else spread_text(most, 0, 1 / 1024)
    return [name, *cells, memory]


BENCH = Bench(
    "idle",
    "CPU of the profiler with 10, 100 and 1000 idle threads at 100 Hz: flametap and peers",
    arguments,
    measure,
    tables,
    minutes=4,
)

if __name__ == "__main__":
    run(BENCH)
