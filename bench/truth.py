"""Compare where flametap shows CPU time with where programs spent it by their own measurement.

    python bench/truth.py [--quick] [--runs 1] [--seconds 2] [--rate 100] [--modes server …]

Each mode of ``tests/targets/truth.c`` reads its own CPU clocks around crunch_a and crunch_b. The
table shows the share of the CPU-time profile whose leaf is in them: for flametap without a budget
and with the default one, and for perf (``cpu-clock``, one Hz less, without stacks), one after the
other, each on a target of its own. They run on one CPU (the target and its helpers, not the
profiler's process) and on all; two modes also beside processes that keep all CPUs busy. The error
of a recording is the larger of the two differences. Ctrl-C ends it with a table of the results so
far.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import benchmark
import peers
import programs
import shares
import usage
from benchmark import Bench, run
from reporting import Data, Table
from stats import MISSING

MODES = (
    *("requests", "bursts", "convoy", "crowd", "pipeline", "instep", "tick", "many", "server"),
)
BESIDE_OTHERS = ("requests", "crowd")
QUICK = ("requests", "server")
SETTLE_S = 0.2
SPIN = "while True: pass"


@dataclass(frozen=True)
class Place:
    """The conditions of a target. ``nice`` is its own, ``others_nice`` that of busy processes, one
    for each CPU; None for no such processes."""

    name: str
    pinned: bool = False
    nice: int = 0
    others_nice: int | None = None


PLACES = (
    Place("one", pinned=True),
    Place("all"),
    Place("all, busy; target nice 10", nice=10, others_nice=0),
    Place("all, busy with nice 10", others_nice=10),
)
NOBODY = "no profiler"
COMPARED = (None, peers.FLAMETAP, peers.FLAMETAP_IN_BUDGET, peers.PERF_FLAT)


def _name(peer: peers.Peer | None) -> str:
    return peer.name if peer else NOBODY


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--runs", type=int, default=1, help="of each (%(default)s)")
    parser.add_argument("--seconds", type=float, default=2.0, help="length of a recording")
    parser.add_argument("--rate", type=float, default=100.0, help="Hz")
    parser.add_argument("--modes", nargs="+", choices=MODES, metavar="MODE", help=", ".join(MODES))


def measure(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    program = programs.build("truth", folder, source=programs.TEST_TARGETS / "truth.c")
    modes = options.modes or (QUICK if options.quick else MODES)
    places = PLACES[:2] if options.quick else PLACES
    cells = [
        (mode, place, peer)
        for mode in modes
        for place in places
        for peer in COMPARED
        if (place.others_nice is None or mode in BESIDE_OTHERS) and not (peer and peer.missing)
    ]
    found: list[dict[str, Any]] = []
    with contextlib.suppress(KeyboardInterrupt):  # the table is of what there is until then
        for _, (mode, place, peer) in benchmark.interleaved(cells, 0, options.runs):
            one: dict[str, Any] = {"mode": mode, "place": place.name, "peer": _name(peer)}
            try:
                command = _command(program, mode, place)
                with _others(place.others_nice), programs.Program(command) as target:
                    time.sleep(SETTLE_S)
                    one |= _recording(
                        target, peer, options.rate, options.seconds, folder / "output"
                    )
                said = f"{one['shown']} of {one['true']}" if "shown" in one else f"{one['true']}"
            except benchmark.FAILURES as error:
                said = one["error"] = f"{error}"[:200]
            benchmark.say(f"{mode}, {place.name}, {one['peer']}: {said}")
            found.append(one)
    return {
        "recordings": found,
        "missing": [peer.name for peer in COMPARED if peer and peer.missing],
        "settings": {"seconds": options.seconds, "rate_hz": options.rate, "runs": options.runs},
    }


def _command(program: Path, mode: str, place: Place) -> list[str | Path]:
    pinned_to = [str(max(os.sched_getaffinity(0)))] if place.pinned else []
    return ["nice", "-n", str(place.nice), program, mode, *pinned_to]


@contextlib.contextmanager
def _others(nice: int | None) -> Iterator[None]:
    """Start a busy process for each CPU; none if ``nice`` is None."""
    count = 0 if nice is None else len(os.sched_getaffinity(0))
    command = ["nice", "-n", str(nice), sys.executable, "-S", "-c", SPIN]
    running = [subprocess.Popen(command) for _ in range(count)]
    try:
        yield
    finally:
        for process in running:
            process.kill()
            process.wait()


def _recording(
    target: programs.Program, peer: peers.Peer | None, rate_hz: float, seconds: float, output: Path
) -> dict[str, Any]:
    """Return the target's figures for a window, and a profiler's for a recording around it."""
    if peer is None:
        return {"true": _stretch(target, seconds)}
    output.unlink(missing_ok=True)
    is_perf = peer is peers.PERF_FLAT
    running = peer.start(target.pid, rate_hz - 1 if is_perf else rate_hz, output, peer.options)
    before_ns = usage.cpu_ns(target.pid)
    try:
        true = _stretch(target, seconds)
    finally:
        used_s = (usage.cpu_ns(target.pid) - before_ns) / 1e9
        ended = running.stop()
    if not output.exists():
        raise RuntimeError(ended.note or "no output")
    by_leaf, total = shares.of_leaves(peer.name, output)
    if not is_perf:
        used_s = total / 1e6  # by its own sum: of the recording, which is longer than the stretch
    samples = ended.samples if is_perf else ended.status.get("cpu_samples", 0)
    return {
        "true": true,
        "shown": {name: by_leaf.get(f"crunch_{name}", 0.0) for name in ("a", "b")},
        "unattributed": by_leaf.get("[unattributed]", 0.0),
        "heaviest": dict(sorted(by_leaf.items(), key=lambda item: -item[1])[:5]),
        "samples": samples,
        # Samples within one period are not independent.
        "told_apart": min(samples, rate_hz * true["cpu_s"]),
        "samples_per_cpu_s": samples / used_s if used_s else 0.0,
    }


def _stretch(target: programs.Program, seconds: float) -> dict[str, float]:
    target.ask("reset")
    time.sleep(seconds)
    true: dict[str, float] = json.loads(target.ask("truth"))
    return true


def _error_points(one: Data) -> float:
    shown, true = one["shown"], one["true"]
    return 100 * max(abs(float(shown[name]) - float(true[name])) for name in ("a", "b"))


def _chance_points(one: Data) -> float:
    """Return the larger standard error of the two shares, for this number of samples."""
    most = max((one["true"][name] for name in ("a", "b")), key=lambda share: share * (1 - share))
    return 100 * math.sqrt(max(0.0, most * (1 - most)) / max(1, one["told_apart"]))


def _percentile_95(values: list[float]) -> float:
    return sorted(values)[math.ceil(0.95 * len(values)) - 1]


def _pair(recordings: list[Data], what: str) -> str:
    return " ".join(
        f"{statistics.median(one[what][name] for one in recordings):.2f}" for name in ("a", "b")
    )


def _loops_per_cpu_s(recordings: list[Data]) -> float:
    spent = [(one["true"]["loops"], one["true"]["cpu_s"]) for one in recordings]
    return statistics.median(loops / cpu_s if cpu_s else 0.0 for loops, cpu_s in spent)


def _row(peer: str, good: list[Data], alone: list[Data]) -> list[str]:
    cpu_s = f"{statistics.median(one['true']['cpu_s'] for one in good):.2f}"
    if peer == NOBODY:
        return [peer, MISSING, _pair(good, "true"), *[MISSING] * 5, cpu_s, MISSING]
    errors = [_error_points(one) for one in good]
    usual = _loops_per_cpu_s(alone) if alone else 0.0
    return [
        peer,
        _pair(good, "shown"),
        _pair(good, "true"),
        f"{statistics.median(errors):.1f}",
        f"{_percentile_95(errors):.1f}",
        f"{statistics.median(map(_chance_points, good)):.1f}",
        f"{100 * statistics.median(one['unattributed'] for one in good):.1f}",
        f"{statistics.median(one['samples_per_cpu_s'] for one in good):.0f}",
        cpu_s,
        f"{100 * (1 - _loops_per_cpu_s(good) / usual):.1f}" if usual else MISSING,
    ]


def tables(data: Data) -> list[Table]:
    rows = []
    for mode in MODES:
        for place in PLACES:
            here = [
                one
                for one in data["recordings"]
                if (one["mode"], one["place"]) == (mode, place.name)
            ]
            alone = [one for one in here if one["peer"] == NOBODY and "error" not in one]
            for peer in map(_name, COMPARED):
                cell = [one for one in here if one["peer"] == peer]
                good = [one for one in cell if "error" not in one]
                if good:
                    rows.append([mode, place.name, *_row(peer, good, alone)])
                elif cell:
                    why = f"failed: {cell[0]['error']}"
                    rows.append([mode, place.name, peer, why, *[MISSING] * 8])
    columns = (
        *("program", "CPUs", "profiler", "shown a b", "true a b", "error, points", "95 %"),
        *("chance alone", "[unattributed], %", "samples per CPU s", "CPU s", "slowdown, %"),
    )
    settings = data["settings"]
    remark = (
        f"Up to {settings['runs']} recordings of {settings['seconds']:g} s each at"
        f" {settings['rate_hz']:g} Hz; medians. a, b: share of CPU time in crunch_a, crunch_b."
        " Error: the larger of the two, its median and 95th percentile over the recordings. Chance"
        " alone: the standard error of that many samples, at most the requested number. Slowdown by"
        " CPU time, compared with the line without a profiler."
    )
    if data["missing"]:
        remark += f" Not on this machine: {', '.join(data['missing'])}."
    return [Table("Where CPU time was spent: shown and true", columns, rows, remark)]


BENCH = Bench(
    "truth",
    "where CPU time is shown and where it was spent, by programs that know: flametap, perf",
    arguments,
    measure,
    tables,
)

if __name__ == "__main__":
    run(BENCH)
