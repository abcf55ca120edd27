"""Measure an attach: how long it takes, how long a thread is stopped, what it brings and leaves.

    python bench/attach.py [--quick] [--minutes 4] [--busy 0 50]

The target is a C program whose main thread reads the clock all the time, on a CPU of its own where
the machine has another; the profiler is on the other one. With ``--busy 50`` there are 50 threads
more for each CPU that compute. Each figure of flametap is of one attach of 0.3 s by its own
injector process; "to the first stack" is the whole command, from its start to its end, of the
shortest recording or dump that each profiler makes.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import benchmark
import programs
from benchmark import Bench, run
from flametap.inject.link.session import Session
from flametap.inject.ways import injector_for
from reporting import Data, Table
from stats import spread_text

SAMPLED_S = 0.3
COMMAND_LIMIT_S = 180.0
WAYS = ("direct", "frida")
FLAMETAP = (sys.executable, "-m", "flametap")
RECORD = (*FLAMETAP, "record", "{pid}", "-d", "0.2", "-o", "{folder}/a.folded")
PERF = ("perf", "record", "-q", "-g", "-o", "{folder}/perf", "-p", "{pid}", "sleep", "0.2")
# The shortest that each can do; {pid}, {folder}.
COMMANDS = {
    "flametap dump": (*FLAMETAP, "dump", "{pid}"),
    "flametap dump --inject frida": (*FLAMETAP, "dump", "{pid}", "--inject", "frida"),
    "flametap record -d 0.2": (
        *FLAMETAP,
        "record",
        "{pid}",
        "-d",
        "0.2",
        "-o",
        "{folder}/a.folded",
    ),
    "perf record": (
        "perf",
        "record",
        "-q",
        "-g",
        "-o",
        "{folder}/perf",
        "-p",
        "{pid}",
        "sleep",
        "0.2",
    ),
    "gdb -batch": ("gdb", "-q", "-nx", "-batch", "-p", "{pid}", "-ex", "thread apply all bt"),
    "py-spy dump": ("py-spy", "dump", "--native", "--pid", "{pid}"),
}
PYTHON_ONLY = ("py-spy dump",)


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--busy", type=int, nargs="+", default=[0, 50], help="threads for each CPU")


def measure(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    program = programs.build("attach", folder)
    busy = programs.build("spinners", folder)
    names = [name for name in COMMANDS if shutil.which(COMMANDS[name][0])]
    cells = [(count, name) for count in options.busy for name in (*WAYS, *names)]
    windows = []
    for _, (count, name) in benchmark.interleaved(cells, options.minutes):
        one: dict[str, Any] = {"busy": count, "what": name}
        try:
            with _crowd(busy, count), _target(name, program) as target:
                one |= _way(target, name) if name in WAYS else _command(target, name, folder)
        except benchmark.FAILURES as error:
            one["error"] = f"{error}"[:200]
        benchmark.say(f"{one}")
        windows.append(one)
    return {"windows": windows, "busy": options.busy}


@contextlib.contextmanager
def _crowd(program: Path, count: int) -> Iterator[None]:
    threads = count * len(os.sched_getaffinity(0))
    if not threads:
        yield
        return
    with programs.Program([program, str(threads)]):
        yield


@contextlib.contextmanager
def _target(name: str, program: Path) -> Iterator[programs.Program]:
    cpus = sorted(os.sched_getaffinity(0))
    started = (
        programs.python_program("idle", "1") if name in PYTHON_ONLY else programs.Program([program])
    )
    with started as target:
        if len(cpus) > 1 and name not in PYTHON_ONLY:
            os.sched_setaffinity(target.pid, cpus[-1:])  # the main thread
            os.sched_setaffinity(0, cpus[:-1])
        try:
            time.sleep(0.2)
            yield target
        finally:
            os.sched_setaffinity(0, cpus)


def _way(target: programs.Program, way: str) -> dict[str, Any]:
    """One attach by this process, as the injector makes it."""
    pid = target.pid
    before = _state(pid)
    target.ask()
    began_s = time.perf_counter()
    session = Session(pid, injector_for(pid, way)[0])
    try:
        session.attach(100.0)
        attached_s = time.perf_counter()
        session.start()
        started_s = time.perf_counter()
        time.sleep(SAMPLED_S)
        during = _state(pid)
        stopping_s = time.perf_counter()
        session.stop()
    finally:
        session.close()
    ended_s = time.perf_counter()
    gap_ns = int(target.ask())
    after = _state(pid)
    return {
        "attach_ms": (attached_s - began_s) * 1e3,
        "start_ms": (started_s - attached_s) * 1e3,
        "detach_ms": (ended_s - stopping_s) * 1e3,
        "gap_ms": gap_ns / 1e6,
        "rss_kb": during["rss_kb"] - before["rss_kb"],
        "threads": during["threads"] - before["threads"],
        "descriptors": during["descriptors"] - before["descriptors"],
        "mappings_left": len(after["maps"] ^ before["maps"]),
    }


def _state(pid: int) -> dict[str, Any]:
    folder = Path(f"/proc/{pid}")
    status = dict(line.split(":", 1) for line in (folder / "status").read_text().splitlines())
    return {
        "rss_kb": int(status["VmRSS"].split()[0]),
        "threads": int(status["Threads"]),
        "descriptors": len(os.listdir(folder / "fd")),
        "maps": frozenset((folder / "maps").read_text().splitlines()),
    }


def _command(target: programs.Program, name: str, folder: Path) -> dict[str, Any]:
    command = [part.format(pid=target.pid, folder=folder) for part in COMMANDS[name]]
    if name not in PYTHON_ONLY:
        target.ask()
    # What is installed has its byte code.
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": ""}
    began_s = time.perf_counter()
    used_s = sum(os.times()[2:4])
    done = subprocess.run(
        command, capture_output=True, timeout=COMMAND_LIMIT_S, check=False, env=environment
    )
    one: dict[str, Any] = {
        "command_ms": (time.perf_counter() - began_s) * 1e3,
        "cpu_ms": (sum(os.times()[2:4]) - used_s) * 1e3,
    }
    if name not in PYTHON_ONLY:
        one["gap_ms"] = int(target.ask()) / 1e6
    if done.returncode:
        raise RuntimeError(f"{name} failed: {done.stderr[-150:].decode(errors='replace')}")
    return one


def tables(data: Data) -> list[Table]:
    windows = data["windows"]
    found = []
    fields = ("attach_ms", "start_ms", "detach_ms", "gap_ms", "rss_kb", "threads", "descriptors")
    heads = ("attach, ms", "start, ms", "end, ms", "longest gap, ms", "RSS, KB", "threads", "fds")
    for count in data["busy"]:
        rows = []
        for way in WAYS:
            of = [one for one in windows if (one["busy"], one["what"]) == (count, way)]
            cells = [spread_text([one[field] for one in of if field in one], 1) for field in fields]
            left = [one["mappings_left"] for one in of if "mappings_left" in one]
            rows.append([way, *cells, spread_text(left, 0)])
        title = f"One attach, {count} busy threads for each CPU"
        found.append(Table(title, ["way in", *heads, "mappings that differ after"], rows))
        rows = []
        for name in COMMANDS:
            of = [one for one in windows if (one["busy"], one["what"]) == (count, name)]
            rows.append(
                [
                    name,
                    *(
                        spread_text([one[field] for one in of if field in one], 0)
                        for field in ("command_ms", "cpu_ms", "gap_ms")
                    ),
                ]
            )
        columns = ["command", "in all, ms", "its CPU time, ms", "longest gap of the thread, ms"]
        found.append(Table(f"To the first stack, {count} busy threads for each CPU", columns, rows))
    return found


BENCH = Bench(
    "attach",
    "duration of an attach, its longest stop, its memory and what it leaves",
    arguments,
    measure,
    tables,
    minutes=4,
)

if __name__ == "__main__":
    run(BENCH)
