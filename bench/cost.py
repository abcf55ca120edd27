"""Measure the slowdown of a busy program under flametap and perf, and the time to the first graph.

    python bench/cost.py [--quick] [--minutes 4] [--threads 2 16] [--rates 100 1000]

Slowdown is measured on twins: two copies of ``twin.c`` run side by side, first without a profiler,
then with one of them profiled, then without again. The work of each per second of its own CPU time
is compared, so that other load on the machine and the profiler's use of the other cores do not
count. The profiler's own CPU time is shown separately.
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
from flametap.analysis.views import views_of
from flametap.capture.capture_options import CaptureOptions
from flametap.capture.live import Capture
from flametap.model import Clock
from flametap.tree.selection import Selection
from reporting import Data, Table
from stats import spread_text

FIRST_GRAPH_DEADLINE_S = 40.0
SETTLE_S = 0.7  # after an attach: compiling unwind tables is no steady cost
COMPARED = (None, peers.FLAMETAP, peers.PERF_FP, peers.PERF_DWARF)
NOBODY = "no profiler"


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--threads", type=int, nargs="+", default=[2, 16], help="of each twin")
    parser.add_argument("--rates", type=float, nargs="+", default=[100.0, 1000.0], help="Hz")
    parser.add_argument("--seconds", type=float, default=2.5, help="length of a window")
    parser.add_argument("--firsts", type=int, default=5, help="how many first graphs")


def measure(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    program = programs.build("twin", folder)
    programs.go_first()
    if options.quick:
        options.firsts, options.seconds, options.threads = 1, 1.0, options.threads[:1]
    firsts = [seconds_to_first_graph(program) for _ in range(options.firsts)]
    cells = [
        (n, peer, rate)
        for n in options.threads
        for peer in COMPARED
        if peer is None or not peer.missing
        for rate in (options.rates if peer else [0.0])
    ]
    windows: list[dict[str, Any]] = []
    for number, (n, peer, rate) in benchmark.interleaved(cells, options.minutes):
        one: dict[str, Any] = {
            "threads": n,
            "peer": peer.name if peer else NOBODY,
            "rate_hz": rate,
        }
        twins = [programs.Program([program, str(n)]) for _ in range(2)]
        try:
            one |= _watch(twins, number % 2, peer, rate, options.seconds, folder / "output")
            said = f"{100 * one['slowdown']:.2f} %"
        except benchmark.FAILURES as error:
            said = one["error"] = f"{error}"[:200]
        finally:
            for twin in twins:
                twin.close()
        benchmark.say(f"{n} threads, {one['peer']} at {rate:.0f} Hz: {said}")
        windows.append(one)
    return {"firsts_s": firsts, "windows": windows, "settings": {"seconds": options.seconds}}


def _speeds(twins: list[programs.Program], seconds: float) -> float:
    """Return the rounds per CPU second of the first twin, as a multiple of the second's, over one
    window."""
    before = [tuple(map(int, twin.ask().split())) for twin in twins]
    time.sleep(seconds)
    after = [tuple(map(int, twin.ask().split())) for twin in twins]
    first, second = ((a[0] - b[0]) / (a[1] - b[1]) for a, b in zip(after, before, strict=True))
    return first / second


def _watch(
    twins: list[programs.Program],
    profiled: int,
    peer: peers.Peer | None,
    rate: float,
    seconds: float,
    output: Path,
) -> dict[str, Any]:
    """Return the share of speed that the profiled twin loses (0.01 is 1 %), and the cost."""
    pair = [twins[profiled], twins[1 - profiled]]
    output.unlink(missing_ok=True)
    before = _speeds(pair, seconds / 2)
    result: dict[str, Any] = {}
    if peer is None:
        watched = _speeds(pair, seconds)
    else:
        running = peer.start(pair[0].pid, rate, output, peer.options)
        try:
            time.sleep(SETTLE_S)
            began_ns, first = time.monotonic_ns(), running.mark()
            watched = _speeds(pair, seconds)
            last, core = running.mark(), (time.monotonic_ns() - began_ns) / 100
        finally:
            running.stop()
        result["host_cpu_percent"] = (last.host_cpu_ns - first.host_cpu_ns) / core
        if last.status:
            result["sampler_cpu_percent"] = (last.target_cpu_ns - first.target_cpu_ns) / core
            result["handler_p50_ns"] = last.status["handler_p50_ns"]
            result["handler_p99_ns"] = last.status["handler_p99_ns"]
    after = _speeds(pair, seconds / 2)
    return {"slowdown": 1 - watched / ((before + after) / 2), **result}


def seconds_to_first_graph(program: Path) -> float:
    """Return the seconds from the start of the attach to a tree whose frames all have names."""
    with programs.Program([program, "1"]) as target:
        capture = Capture(target.pid, CaptureOptions())
        began = time.monotonic()
        try:
            capture.start()
            while time.monotonic() - began < FIRST_GRAPH_DEADLINE_S:
                tree = views_of(capture.recording).tree(Selection(Clock.CPU, None))
                if len(tree.parent) > 1 and capture.status().symbols_pending == 0:
                    return time.monotonic() - began
                time.sleep(0.01)
        finally:
            capture.close()
    raise RuntimeError(f"no graph with names within {FIRST_GRAPH_DEADLINE_S:.0f} s")


def tables(data: Data) -> list[Table]:
    windows = data["windows"]
    rows = []
    order = [NOBODY, *(peer.name for peer in COMPARED if peer)]
    keys = {(one["threads"], one["rate_hz"], order.index(one["peer"])) for one in windows}
    for n, rate, place in sorted(keys):
        key = (n, rate, order[place])
        cell = [one for one in windows if (one["threads"], one["rate_hz"], one["peer"]) == key]

        def texts(name: str, digits: int, scale: float = 1.0, cell: Any = cell) -> str:
            return spread_text([one[name] for one in cell if name in one], digits, scale)

        failed = [one["error"] for one in cell if "error" in one]
        rows.append(
            [
                f"{n}",
                f"{rate:.0f}" if rate else "–",
                order[place] + (f" (failed: {failed[0]})" if failed else ""),
                texts("slowdown", 2, 100),
                texts("handler_p50_ns", 2, 1e-3),
                texts("handler_p99_ns", 2, 1e-3),
                texts("sampler_cpu_percent", 2),
                texts("host_cpu_percent", 2),
            ]
        )
    columns = (
        *("busy threads", "rate, Hz", "profiler", "slowdown, %", "handler median, µs"),
        *("p99, µs", "thread in the target, % of a core", "profiler's process, % of a core"),
    )
    firsts = spread_text(data["firsts_s"], 2)
    remark = (
        f"Median (range) over windows of {data['settings']['seconds']:g} s. Attach to the first"
        f" graph with names: {firsts} s. The line without a profiler shows the noise;"
        " the limit is 1 %."
    )
    return [Table("Slowdown of a busy program, by CPU time", columns, rows, remark)]


BENCH = Bench(
    "cost",
    "slowdown of busy threads by CPU time against an unprofiled twin; time to the first graph",
    arguments,
    measure,
    tables,
    minutes=4,
)

if __name__ == "__main__":
    run(BENCH)
