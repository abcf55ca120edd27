"""Measure how many stacks of real programs under load reach their root, and what stops the others.

    python bench/completeness.py [--quick] [--seconds 5] [--rate 1000] [--only NAME…]

Weighted by CPU time. "by rules": call frame information (or Go's table of functions) for every
step; "guessed": at least one step by frame pointer or by scanning, as in JIT code. The others are
shown with their verdict and the module at fault.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import benchmark
from benchmark import Bench, run
from flametap.capture.live import Capture
from flametap.model import Verdict
from reporting import Data, Table
from stats import MISSING

sys.path.append(str(Path(__file__).resolve().parent.parent / "tests" / "support"))
from capabilities import find
from recording import record
from workloads import LOADED

QUICK = ("redis", "openssl ecdsap256")


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seconds", type=float, default=5.0, help="length of a recording")
    parser.add_argument("--rate", type=float, default=1000.0, help="samples a second")
    parser.add_argument("--only", nargs="+", choices=list(LOADED), metavar="NAME")


def measure(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    found, missing = [], []
    for name in options.only or (QUICK if options.quick else LOADED):
        program = LOADED[name]
        if not all(map(find, program.needs)):
            missing.append(name)
            continue
        benchmark.say(name)
        own = folder / name.replace(" ", "_")
        own.mkdir()
        try:
            with program.start(own) as pid:
                capture = record(pid, options.seconds, rate_hz=options.rate)
        except (*benchmark.FAILURES, AssertionError) as error:
            found.append({"name": name, "error": str(error)})
            continue
        found.append({"name": name, **figures(capture)})
    return {
        "seconds": options.seconds,
        "rate_hz": options.rate,
        "programs": found,
        "missing": missing,
    }


def figures(capture: Capture) -> dict[str, Any]:
    """Return the figures on the stacks of a recording."""
    status = capture.status()
    return {
        "verdict_cpu_ns": status.verdict_cpu_ns,
        "fault_cpu_ns": status.verdict_modules,
        "samples": capture.profile.samples,
    }


def _row(program: dict[str, Any]) -> list[str]:
    if "error" in program:
        return [program["name"], MISSING, MISSING, MISSING, MISSING, program["error"][:80]]
    verdicts = program["verdict_cpu_ns"]
    total = sum(verdicts.values()) or 1

    def share(weight_ns: int) -> str:
        return f"{weight_ns / total:.2%}"

    reached = {v.name for v in Verdict if v.root_reached}
    rest = [f"{n} {share(w)}" for n, w in sorted(verdicts.items()) if n not in reached]
    faults = [f"{name or 'no file'} {share(w)}" for name, w in program["fault_cpu_ns"].items()]
    return [
        program["name"],
        f"{total / 1e9:.1f}",
        share(sum(verdicts.get(name, 0) for name in reached)),
        share(verdicts.get("COMPLETE", 0)),
        share(verdicts.get("GUESSED", 0)),
        "; ".join(rest) + (f" (in {', '.join(faults[:3])})" if faults else ""),
    ]


def tables(data: Data) -> list[Table]:
    header = ["program", "CPU s", "root reached", "by rules", "guessed", "the rest"]
    note = f"{data['seconds']:g} s each, {data['rate_hz']:g} Hz."
    if data["missing"]:
        note += f" Not on this machine: {', '.join(data['missing'])}."
    rows = [_row(program) for program in data["programs"]]
    return [Table("Complete stacks of real programs", header, rows, note)]


BENCH = Bench("completeness", "stacks that reach their root", arguments, measure, tables)


if __name__ == "__main__":
    run(BENCH)
