"""Measure the error of the shares that a profiler shows, against the program's own measurement.

    python bench/accuracy.py [--quick] [--minutes 4] [--rate 1000] [--seconds 6] [--only timer]

The programs divide their CPU time in a known way: in C 3:1, four threads with different loads, and
work that a timer starts every 10 ms (sampled at 100 Hz, the same period); Python and node 3:1. They
read their own CPU clocks. The error is the largest difference of a function's share, in percentage
points. Chance alone contributes sqrt(p (1 - p) / samples).
"""

from __future__ import annotations

import argparse
import math
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import benchmark
import peers
import programs
import shares
from benchmark import Bench, run
from reporting import Data, Table
from stats import spread_text

SETTLE_S = 1.0  # node has compiled what it compiles


@dataclass(frozen=True)
class Case:
    """A program, the frames to find in its stacks, and the profilers that can show them."""

    name: str
    start: Callable[[Path], programs.Program]
    patterns: Mapping[str, str]
    compared: tuple[peers.Peer, ...]
    rate_hz: float = 0.0  # 0: the requested rate


def _c(what: str) -> Callable[[Path], programs.Program]:
    return lambda folder: programs.Program([folder / "shares", what])


def _node(folder: Path) -> programs.Program:
    script = str(programs.TARGETS / "shares.js")
    command = [
        "node",
        "--perf-basic-prof",
        "--no-turbo-inlining",
        "--interpreted-frames-native-stack",
    ]
    return programs.Program([*command, script], folder=folder)  # where it leaves a log of its own


def _exactly(*names: str) -> dict[str, str]:
    return {name: rf"\b{name}\b" for name in names}


NATIVE = (peers.FLAMETAP, peers.PERF_FP, peers.PERF_DWARF)
CASES = (
    Case("C, 3:1", _c("ratio"), _exactly("heavy", "light"), NATIVE),
    Case("C, 4 threads", _c("threads"), _exactly(*(f"load_{n}" for n in (80, 40, 20, 10))), NATIVE),
    Case("C, timer of 10 ms", _c("timer"), _exactly("first", "second"), NATIVE, 100.0),
    Case(
        "Python, 3:1",
        lambda folder: programs.python_program("shares"),
        {"heavy": r"crc32|\bheavy\b", "light": r"adler32|\blight\b"},
        tuple(peer for peer in peers.FOR_PYTHON if peer is not peers.GDB),
    ),
    Case("node, 3:1", _node, _exactly("heavy", "light"), (peers.FLAMETAP, peers.PERF_FP)),
)


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--rate", type=float, default=1000.0, help="Hz")
    parser.add_argument("--seconds", type=float, default=6.0, help="length of a profile")
    parser.add_argument("--only", default="", help="cases whose name has this in it")


def measure(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    programs.build("shares", folder)
    if options.quick:
        options.seconds, options.only = 1.5, options.only or "3:1"
    cells = [
        (case, peer)
        for case in CASES
        for peer in case.compared
        if options.only in case.name
        and not peer.missing
        and (not case.name.startswith("node") or shutil.which("node"))
    ]
    profiles = []
    for _, (case, peer) in benchmark.interleaved(cells, options.minutes):
        rate = case.rate_hz or options.rate
        one: dict[str, Any] = {"case": case.name, "peer": peer.name, "rate_hz": rate}
        try:
            with case.start(folder) as target:
                one |= _profile(target, case, peer, rate, options.seconds, folder / "output")
            said = f"{one['error_points']:.2f} points off"
        except benchmark.FAILURES as error:
            said = one["error"] = f"{error}"[:200]
        benchmark.say(f"{case.name}, {peer.name}: {said}")
        profiles.append(one)
    return {
        "profiles": profiles,
        "missing": [peer.name for peer in peers.FOR_PYTHON if peer.missing],
        "settings": {"seconds": options.seconds},
    }


def _profile(
    target: programs.Program,
    case: Case,
    peer: peers.Peer,
    rate: float,
    seconds: float,
    output: Path,
) -> dict[str, Any]:
    output.unlink(missing_ok=True)
    time.sleep(SETTLE_S)
    running = peer.start(target.pid, rate, output, peer.options)
    target.ask()
    time.sleep(seconds)
    answer = target.ask()
    ended = running.stop()
    spent = {name: int(ns) for name, ns in (part.split("=") for part in answer.split())}
    total = max(1, sum(spent.values()))
    true = {name: ns / total for name, ns in spent.items()}
    perf_map = Path(f"/tmp/perf-{target.pid}.map")
    try:
        seen = shares.of_output(peer.name, output, case.patterns, perf_map)
    finally:
        perf_map.unlink(missing_ok=True)
    return {
        "samples": ended.samples,
        "true": true,
        "seen": seen,
        "error_points": 100 * max(abs(seen[name] - true[name]) for name in true),
        "chance_points": 100
        * max(math.sqrt(p * (1 - p) / max(1, ended.samples)) for p in true.values()),
    }


def tables(data: Data) -> list[Table]:
    rows = []
    for case in CASES:
        for peer in case.compared:
            key = (case.name, peer.name)
            cell = [one for one in data["profiles"] if (one["case"], one["peer"]) == key]
            good = [one for one in cell if "error_points" in one]
            if not cell and peer.name not in data["missing"]:
                continue
            if not good:
                why = f"failed: {cell[0]['error']}" if cell else "missing"
                rows.append([case.name, peer.name, why, *["–"] * 4])
                continue
            main = next(iter(case.patterns))
            rows.append(
                [
                    case.name,
                    peer.name,
                    spread_text([one["error_points"] for one in good], 2),
                    spread_text([one["chance_points"] for one in good], 2),
                    spread_text([one["true"][main] for one in good], 1, 100),
                    spread_text([one["seen"][main] for one in good], 1, 100),
                    spread_text([one["samples"] for one in good], 0),
                ]
            )
    columns = (
        *("program", "profiler", "error, points", "chance alone, points"),
        *("true share of the first function, %", "seen, %", "samples"),
    )
    remark = (
        f"Profiles of {data['settings']['seconds']:g} s. py-spy and austin measure wall time of"
        " threads that are not idle. Samples are counted by each profiler. JIT addresses in"
        " flametap's output were named by the bench, from node's perf map."
    )
    return [Table("Accuracy of shares", columns, rows, remark)]


BENCH = Bench(
    "accuracy",
    "error of the shares shown, on programs with known shares: flametap, perf, py-spy, austin",
    arguments,
    measure,
    tables,
    minutes=4,
)

if __name__ == "__main__":
    run(BENCH)
