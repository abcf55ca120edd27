"""Measure the formats of exports: time, memory and size, there and back again.

    python bench/formats.py [--quick] [--samples 10000000] [--formats pprof folded …]

A recording of so many intervals is written in each format, and what was written is read again, each
in a process of its own. Where the owner of a format has a tool, that reads the file, too.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import benchmark
from benchmark import Bench, run
from flametap.export import FORMATS
from kept import make
from reporting import Data, Table
from stats import MISSING

LIMIT_S = 1800.0
# Writes or reads a file; prints seconds, and the memory that this takes.
WORK = """
import json, resource, sys, time
from flametap.export import write_file
from flametap.export.request import ExportRequest
from flametap.foreign.opening import open_file
from flametap.model import Clock
from flametap.tree.selection import Selection

def memory_mb():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024

work, path, to, form = sys.argv[1:]
before_mb, began = 0.0, time.monotonic()
opened = open_file(path)
if work == "write":
    before_mb, began = memory_mb(), time.monotonic()
    write_file(to, form, ExportRequest(opened, Selection(Clock.WALL)))
print(json.dumps({"seconds": time.monotonic() - began, "mb": memory_mb() - before_mb,
                  "samples": opened.status().samples}))
"""
NOT_READ = ("html", "svg", "sqlite", "markdown", "jsonl")
# The tool that owns a format; {} is the file.
OWNERS = {
    "pprof": ["go", "tool", "pprof", "-top", "-nodecount=5", "{}"],
    "sqlite": ["sqlite3", "{}", "select count(*), sum(wall_ns) from intervals"],
}


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--samples", type=int, default=10_000_000)
    parser.add_argument("--formats", nargs="+", choices=FORMATS, default=[*FORMATS])


def measure(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    if options.quick:
        options.samples = 100_000
    recording = folder / "made.flametap"
    make(options.samples, recording)
    found = []
    for name in options.formats:
        path = folder / f"out{FORMATS[name].extensions[0]}"
        entry: dict[str, Any] = {"name": name, "write": _work("write", recording, path, name)}
        if path.exists():
            entry["bytes"] = path.stat().st_size
            if name not in NOT_READ:
                entry["read"] = _work("read", path, path, name)
            entry["owner"] = _owner(name, path)
            path.unlink()
        benchmark.say(f"{name}: {entry}")
        found.append(entry)
    return {"formats": found, "samples": options.samples}


def _work(work: str, path: Path, to: Path, name: str) -> dict[str, Any]:
    """Do it in another process; return what it says, or why it did not."""
    command = [sys.executable, "-c", WORK, work, str(path), str(to), name]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=LIMIT_S)
    except subprocess.TimeoutExpired:
        return {"error": f"more than {LIMIT_S:g} s"}
    if done.returncode:
        return {"error": done.stderr.strip().splitlines()[-1][:80]}
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def _owner(name: str, path: Path) -> float | None:
    """Return how long the owner's tool reads a file, seconds; None without one."""
    command = [each.format(path) for each in OWNERS.get(name, [])]
    if not command or not shutil.which(command[0]):
        return None
    began_s = time.monotonic()
    done = subprocess.run(command, capture_output=True, check=False, timeout=LIMIT_S)
    return None if done.returncode else time.monotonic() - began_s


def _cells(done: Data | None) -> list[str]:
    if done is None:
        return [MISSING, MISSING]
    if "error" in done:
        return [done["error"], MISSING]
    return [f"{done['seconds']:.1f}", f"{done['mb']:.0f}"]


def tables(data: Data) -> list[Table]:
    rows = [
        [
            each["name"],
            f"{each['bytes'] / 1e6:.0f}" if "bytes" in each else MISSING,
            *_cells(each["write"]),
            *_cells(each.get("read")),
            f"{each['owner']:.1f}" if each.get("owner") else MISSING,
        ]
        for each in data["formats"]
    ]
    columns = ["format", "file, MB", "written in, s", "memory, MB", "read in, s", "memory, MB"]
    return [
        Table(
            f"A recording of {data['samples']:,} intervals in other formats, and back",
            [*columns, "read by its owner's tool, s"],
            rows,
            "Memory of writing is what it takes beside the recording.",
        )
    ]


BENCH = Bench(
    "formats",
    "exports of 10⁷ intervals in each format, and read again: time, memory, size",
    arguments,
    measure,
    tables,
)

if __name__ == "__main__":
    run(BENCH)
