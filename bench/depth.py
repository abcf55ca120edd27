"""Measure how long the signal handler takes, by the depth of the stack.

    python bench/depth.py [--quick] [--minutes 3] [--depths 5 10 20 50 200 2000] [--rates 100 1000]

One busy thread has a stack of that many frames. The agent times its own handler; at 100 Hz it runs
with cold caches, at 1 000 Hz with warm ones.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import benchmark
import peers
import programs
from benchmark import Bench, run
from reporting import Data, Table
from stats import spread_text

SETTLE_S = 1.0  # the first signals meet modules without tables


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--depths", type=int, nargs="+", default=[5, 10, 20, 50, 200, 2000])
    parser.add_argument("--rates", type=float, nargs="+", default=[100.0, 1000.0], help="Hz")
    parser.add_argument("--seconds", type=float, default=3.0, help="length of a window")


def measure(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    program = programs.build("depth", folder)
    if options.quick:
        options.seconds, options.rates = 1.0, options.rates[-1:]
    cells = [(depth, rate) for depth in options.depths for rate in options.rates]
    windows = []
    for _, (depth, rate) in benchmark.interleaved(cells, options.minutes):
        one: dict[str, Any] = {"depth": depth, "rate_hz": rate}
        try:
            with programs.Program([program, str(depth)]) as target:
                one |= _watch(target.pid, rate, options.seconds, folder / "output")
            if abs(one["frames"] - depth) > 2:
                raise RuntimeError(f"{one['frames']} frames instead of {depth}")
            benchmark.say(f"{depth} frames at {rate:.0f} Hz: {one['mean_ns']:.0f} ns")
        except benchmark.FAILURES as error:
            one = {"depth": depth, "rate_hz": rate, "error": f"{error}"[:200]}
            benchmark.say(f"{depth} frames at {rate:.0f} Hz: {one['error']}")
        windows.append(one)
    return {"windows": windows, "settings": {"seconds": options.seconds}}


def _watch(pid: int, rate: float, seconds: float, output: Path) -> dict[str, Any]:
    running = peers.Flametap(pid, rate, output, ())
    try:
        time.sleep(SETTLE_S)
        first = running.mark().status["counters"]
        time.sleep(seconds)
        last = running.mark().status
    finally:
        ended = running.stop()
    handled = last["counters"]["signals_handled"] - first["signals_handled"]
    spent_ns = last["counters"]["handler_ns_total"] - first["handler_ns_total"]
    if not handled:
        raise RuntimeError("no signal was handled")
    stack = max(ended.output.read_text().splitlines(), key=lambda line: int(line.rsplit(" ", 1)[1]))
    return {
        "mean_ns": spent_ns / handled,
        "p50_ns": last["handler_p50_ns"],
        "p99_ns": last["handler_p99_ns"],
        "handled": handled,
        "frames": stack.count(";") + 1,
    }


def tables(data: Data) -> list[Table]:
    windows = [one for one in data["windows"] if "mean_ns" in one]
    rows = []
    for depth, rate in sorted({(one["depth"], one["rate_hz"]) for one in windows}):
        cell = [one for one in windows if (one["depth"], one["rate_hz"]) == (depth, rate)]
        means = [one["mean_ns"] for one in cell]
        rows.append(
            [
                f"{depth}",
                f"{rate:.0f}",
                spread_text(means, 2, 1e-3),
                spread_text(means, 0, 1 / depth),
                spread_text([one["p50_ns"] for one in cell], 2, 1e-3),
                spread_text([one["p99_ns"] for one in cell], 2, 1e-3),
                f"{sum(one['handled'] for one in cell)}",
            ]
        )
    columns = ("frames", "rate, Hz", "mean, µs", "ns a frame", "median, µs", "p99, µs", "signals")
    remark = (
        "Median (range) over windows. The mean is exact. Median and p99 are from a histogram with"
        " steps of 14 to 25 %, and include the first second."
    )
    return [Table("Signal handler by depth of the stack", columns, rows, remark)]


BENCH = Bench(
    "depth",
    "time in the signal handler by depth of the stack: 5 to 2000 frames",
    arguments,
    measure,
    tables,
    minutes=3,
)

if __name__ == "__main__":
    run(BENCH)
