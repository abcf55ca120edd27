"""Measure files of recordings: bytes per million samples, CPU time of writing, time of opening.

    python bench/kept.py [--quick] [--seconds 10] [--threads 16] [--rate 1000]

The same target is recorded by flametap and by others, one after the other. CPU time of writing is
that of the thread that writes, in flametap's own process, while it does. This machine may have too
few CPUs for so many samples, so the same is measured with as many that are made up. Files with many
intervals are made up, too; another process opens each, so that its memory is its own.
"""

from __future__ import annotations

import argparse
import json
import re
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

import benchmark
import programs
from benchmark import Bench, run
from flametap.capture.capture_options import CaptureOptions
from flametap.capture.keeper import KEPT_S
from flametap.capture.live import Capture
from flametap.model import Module, Verdict
from flametap.recording.names.table import SymbolTable
from flametap.recording.profile.store import Profile
from flametap.recording.recording import Recording, ended
from flametap.recording.writer import RecordingWriter
from flametap.wire.events import Batch, ModuleUpdate, ThreadUpdate, Trace
from reporting import Data, Table
from stats import MISSING
from store import BATCH_ROWS, NO_ROWS, name_all, rows, stacks

SYMBOLS_S = 60.0
N_TRACES, N_THREADS = 20_000, 12
MADE_UP_STACKS, MADE_UP_S = 2_000, 60.0
MILLION = 1_000_000
BAR_WRITING_PERCENT, BAR_OPEN_S, BAR_OPEN_MB, BAR_VIEW_S = 1.0, 3.0, 500.0, 0.5
# Opens a file as the page does; prints seconds, and the memory of its process.
OPENS = """
import json, resource, sys, time
from flametap.analysis.views import views_of
from flametap.model import Clock
from flametap.recording.opened import open_recording
from flametap.timeline.heat import HeatQuery
from flametap.timeline.lanes import LaneQuery
from flametap.tree.selection import Selection, Span

def timed(work):
    began = time.monotonic()
    found = work()
    return time.monotonic() - began, found

def memory_mb():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024

open_s, opened = timed(lambda: open_recording(sys.argv[1]))
views, duration_ns = views_of(opened), opened.profile.duration_ns
first_s, _ = timed(lambda: views.tree(Selection()))
open_mb = memory_mb()
seconds = {}
for part in (1.0, 0.5, 0.1, 0.01, 0.0001):
    begin = int(duration_ns * (1 - part) * 0.63)
    end = begin + int(duration_ns * part)
    for clock in Clock:
        work = lambda: views.tree(Selection(clock, span=Span(begin, end)))
        seconds[f"{clock.value} tree of {part:.2%}"] = timed(work)[0]
    for kind in ("cpu", "waits"):
        work = lambda: views.heat(HeatQuery(kind, begin, end))
        seconds[f"{kind} heat map of {part:.2%}"] = timed(work)[0]
    seconds[f"timeline of {part:.2%}"] = timed(lambda: views.lanes(LaneQuery(begin, end)))[0]
seconds["waits for locks"] = timed(lambda: views.lock_places(Selection()))[0]
slowest = max(seconds, key=seconds.get)
print(json.dumps({
    "open_s": open_s, "open_mb": open_mb, "first_s": first_s, "mb": memory_mb(),
    "slowest": slowest, "slowest_s": seconds[slowest],
    "median_s": sorted(seconds.values())[len(seconds) // 2],
}))
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seconds", type=float, default=10.0, help="of each recording")
    parser.add_argument("--threads", type=int, default=16)
    parser.add_argument("--rate", type=float, default=1000.0, help="Hz")
    parser.add_argument("--intervals", type=int, nargs="+", default=[1_000_000, 10_000_000])


def measure(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    if options.quick:
        options.seconds, options.intervals = 2.0, [100_000]
    program = programs.build("stacks", folder)
    sizes: list[dict[str, Any] | None] = []
    with programs.Program([program, str(options.threads), "2000"]) as target:
        writing = _writing(target.pid, options, folder / "own.flametap")
        sizes += _own_sizes(folder / "own.flametap", folder, writing["samples"])
        for name, more in (("perf -g", ["-g"]), ("perf dwarf", ["--call-graph", "dwarf"])):
            sizes.append(_perf(name, target.pid, options, folder / "perf.data", more))
    made_up_percent = _writing_made_up(round(options.rate * options.threads), folder / "made")
    opened = [_opened(count, folder) for count in options.intervals]
    return {
        "writing": {**writing, "made_up_percent": made_up_percent},
        "sizes": [each for each in sizes if each],
        "opened": opened,
        "settings": {
            "seconds": options.seconds,
            "threads": options.threads,
            "rate_hz": options.rate,
        },
    }


def _writing(pid: int, options: argparse.Namespace, path: Path) -> dict[str, Any]:
    """Record into a file, and return what the thread that writes used for that."""
    capture = Capture(pid, CaptureOptions(rate_hz=options.rate, budget_ppm=0))
    capture.keep_in(path.open("wb"), str(path))
    assert capture.keeper is not None
    spent_s: list[float] = []
    capture.keeper.step = _timed(capture.keeper.step, spent_s)  # type: ignore[method-assign]
    capture.start()
    time.sleep(options.seconds)
    capture.stop()
    capture.finish_symbols(SYMBOLS_S)
    capture.keeper.finish()
    found = {
        "samples": capture.profile.samples,
        "seconds": capture.profile.duration_ns / 1e9,
        "writing_percent": 100 * sum(spent_s) / (capture.profile.duration_ns / 1e9),
        "steps": len(spent_s),
    }
    capture.close()
    return found


def _writing_made_up(rows_per_s: int, path: Path) -> float:
    """Return the share of a core that writing takes of some intervals a second, percent."""
    spent_s: list[float] = []
    count = round(rows_per_s * KEPT_S)
    with path.open("wb") as file:
        profile, writer = _begun(file, MADE_UP_STACKS)
        writer.step()
        step = _timed(writer.step, spent_s)
        rng = np.random.default_rng(1)
        for at in range(round(MADE_UP_S / KEPT_S)):
            records = rows(rng, at, MADE_UP_STACKS, N_THREADS)[:count]
            asleep = records["state"] != 1
            records["t0_ns"] = 10**9 + (at * count + np.arange(count)) * (10**9 // rows_per_s)
            records["wall_ns"] = np.where(asleep, records["wall_ns"] // 10, 10**6)
            records["cpu_ns"] //= 10
            profile.apply(Batch(1 + at, int(records["t0_ns"].max()), [], [], [], [], records))
            step()
    path.unlink()
    return 100 * sum(spent_s) / MADE_UP_S


def _timed(work: Callable[[], None], spent_s: list[float]) -> Callable[[], None]:
    def timed() -> None:
        began_s = time.thread_time()
        work()
        spent_s.append(time.thread_time() - began_s)

    return timed


def _own_sizes(path: Path, folder: Path, samples: int) -> list[dict[str, Any]]:
    """Return the sizes of a recording and of its exports."""
    found = [{"name": "flametap", "bytes": path.stat().st_size, "samples": samples}]
    for name in ("firefox.json", "speedscope.json", "folded"):
        out = folder / f"own.{name}"
        command = [sys.executable, "-m", "flametap", "export", "-q", str(path), "-o", str(out)]
        subprocess.run([*command, "--clock", "wall"], check=True)
        size = out.stat().st_size
        found.append({"name": f"flametap, {name}", "bytes": size, "samples": samples})
    return found


def _perf(
    name: str, pid: int, options: argparse.Namespace, out: Path, more: list[str]
) -> dict[str, Any] | None:
    if not shutil.which("perf"):
        return None
    command = ["perf", "record", "-e", "cpu-clock", "-F", "999", *more, "-p", str(pid)]
    command += ["-o", str(out), "--", "sleep", str(options.seconds)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    match = re.search(r"\((\d+) samples\)", done.stderr)
    if not match:
        return None
    return {"name": name, "bytes": out.stat().st_size, "samples": int(match[1])}


def _opened(count: int, folder: Path) -> dict[str, Any]:
    """Make a file of many intervals, and open it."""
    path = folder / f"{count}.flametap"
    make(count, path)
    done = subprocess.run(
        [sys.executable, "-c", OPENS, str(path)], capture_output=True, text=True, check=True
    )
    found: dict[str, Any] = json.loads(done.stdout)
    benchmark.say(
        f"{count:,} intervals: opened in {found['open_s']:.1f} s, {found['open_mb']:.0f} MB;"
        f" {found['slowest']} took {found['slowest_s']:.2f} s"
    )
    size = path.stat().st_size
    path.unlink()
    return {"intervals": count, "bytes": size, **found}


def _begun(file: BinaryIO, n_stacks: int) -> tuple[Profile, RecordingWriter]:
    """Begin a recording that has stacks, with names, and no intervals."""
    profile = Profile()
    profile.keep_new()
    table = SymbolTable(profile.locate)
    recording = Recording(profile, table, lambda: ended(profile))
    module = ModuleUpdate(Module(1, "/usr/lib/libx.so", 0, 0, 1 << 40, ""), False)
    threads = [
        ThreadUpdate(i, i, f"worker {i}", 0, exited=False, hidden=False, signals_blocked=False)
        for i in range(1, N_THREADS + 1)
    ]
    writer = RecordingWriter(file, recording)
    profile.apply(Batch(0, 1, [module], threads, [], [], NO_ROWS))
    for trace_id, frames in enumerate(stacks(n_stacks), 1):
        trace = Trace(trace_id, Verdict.COMPLETE, 0, frames)
        profile.apply(Batch(0, 1, [], [], [], [trace], NO_ROWS))
    name_all(profile, table)
    return profile, writer


def make(count: int, path: Path) -> None:
    """Make a recording of so many intervals."""
    with path.open("wb") as file:
        profile, writer = _begun(file, N_TRACES)
        rng = np.random.default_rng(1)
        for batch in range(count // BATCH_ROWS):
            records = rows(rng, batch, N_TRACES, N_THREADS)
            profile.apply(Batch(batch, int(records["t0_ns"].max()), [], [], [], [], records))
            if batch % 20 == 0:
                writer.step()
        writer.finish()


def tables(data: Data) -> list[Table]:
    sizes = [
        [
            each["name"],
            f"{each['samples']:,}",
            f"{each['bytes'] / 1e6:.2f}",
            f"{each['bytes'] * MILLION / max(each['samples'], 1) / 1e6:.1f}",
        ]
        for each in data["sizes"]
    ]
    writing, settings = data["writing"], data["settings"]
    remark = (
        f"{settings['threads']} threads that compute, {settings['seconds']:g} s."
        f" Writing took {writing['writing_percent']:.2f} % of a core at {settings['rate_hz']:g} Hz,"
        f" {writing['samples'] / writing['seconds']:.0f} samples a second"
        f" (the limit: {BAR_WRITING_PERCENT:g} %), and of"
        f" {settings['rate_hz'] * settings['threads']:g} made-up samples a second"
        f" {writing['made_up_percent']:.2f} %."
    )
    opened = [
        [
            f"{each['intervals']:,}",
            f"{each['bytes'] / 1e6:.0f}",
            f"{each['open_s']:.2f}",
            f"{each['open_mb']:.0f}",
            f"{each['first_s']:.2f}",
            f"{each['median_s']:.2f}",
            f"{each['slowest_s']:.2f} ({each['slowest']})",
            f"{each['mb']:.0f}",
        ]
        for each in data["opened"]
    ]
    return [
        Table(
            "Files of a recording",
            ["file", "samples", "MB", "MB for a million samples"],
            sizes or [[MISSING] * 4],
            remark,
        ),
        Table(
            "Opening a recording",
            [
                *("intervals", "file, MB", "open, s", "memory, MB", "first tree, s"),
                *("views of ranges: median, s", "slowest, s", "memory in the end, MB"),
            ],
            opened,
            f"The limits, for 10⁸ intervals: {BAR_OPEN_S:g} s, {BAR_OPEN_MB:g} MB,"
            f" {BAR_VIEW_S:g} s.",
        ),
    ]


BENCH = Bench(
    "kept",
    "files of recordings: size beside perf's, CPU of writing, time and memory of opening",
    arguments,
    measure,
    tables,
)

if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    run(BENCH)
