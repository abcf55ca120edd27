"""Count system calls that fail with EINTR because of a profiler, over a million thread-samples.

    python bench/eintr.py [--quick] [--seconds 22] [--threads 50] [--rate 1000]

Fifty C threads repeatedly wait for 5 ms in poll, epoll_wait, select, nanosleep and sem_timedwait,
inside a Python process, so that every profiler can sample them. Each counts its waits that failed
with EINTR, attach and detach included. A thread-sample is one look of the profiler at one thread:
22 s at 1 000 Hz make a million.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import benchmark
import peers
import programs
from benchmark import Bench, run
from reporting import Data, Table

COMPARED = (
    peers.FLAMETAP,
    peers.PERF_FP,
    peers.PY_SPY,
    peers.PY_SPY_NATIVE,
    peers.AUSTIN,
    peers.GDB,
)
NOBODY = "no profiler"


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--threads", type=int, default=50)
    parser.add_argument("--rate", type=float, default=1000.0, help="Hz")
    parser.add_argument("--seconds", type=float, default=22.0, help="under each profiler")


def measure(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    library = programs.build("waits", folder, "-shared", "-fPIC")
    if options.quick:
        options.seconds = 3.0
    found = []
    cells: list[peers.Peer | None] = [None, *(peer for peer in COMPARED if not peer.missing)]
    for peer in cells:
        one: dict[str, Any] = {"peer": peer.name if peer else NOBODY}
        try:
            with programs.python_program("waits", library, str(options.threads)) as target:
                one |= _watch(target, peer, options, folder / "output")
            benchmark.say(f"{one['peer']}: {sum(two[1] for two in one['waits'].values())} EINTR")
        except benchmark.FAILURES as error:
            one["error"] = f"{error}"[:200]
            benchmark.say(f"{one['peer']}: {one['error']}")
        found.append(one)
    return {
        "peers": found,
        "missing": [peer.name for peer in COMPARED if peer.missing],
        "settings": {
            "threads": options.threads,
            "rate_hz": options.rate,
            "seconds": options.seconds,
        },
    }


def _watch(
    target: programs.Program, peer: peers.Peer | None, options: argparse.Namespace, output: Path
) -> dict[str, Any]:
    output.unlink(missing_ok=True)
    before = json.loads(target.ask())
    result: dict[str, Any] = {"rounds": 0}
    if peer is None:
        time.sleep(options.seconds)
    else:
        running = peer.start(target.pid, options.rate, output, peer.options)
        try:
            time.sleep(options.seconds)
            result["rounds"] = running.mark().rounds
        finally:
            ended = running.stop()
        counters = ended.status.get("counters", {})
        wanted = ("ticks", "signals_sent", "eintr_repaired", "eintr_unrepairable")
        result["counters"] = {name: counters[name] for name in wanted if name in counters}
        result["samples"] = ended.samples
    after = json.loads(target.ask())
    result["waits"] = {kind: [after[kind][i] - before[kind][i] for i in (0, 1)] for kind in before}
    return result


def tables(data: Data) -> list[Table]:
    threads = data["settings"]["threads"]
    kinds = next(list(one["waits"]) for one in data["peers"] if "waits" in one)
    rows = []
    for one in data["peers"]:
        if "error" in one:
            rows.append([one["peer"], f"failed: {one['error']}", *["–"] * (len(kinds) + 3)])
            continue
        looks = one["rounds"] * threads
        waits = sum(two[0] for two in one["waits"].values())
        eintr = sum(two[1] for two in one["waits"].values())
        rows.append(
            [
                one["peer"],
                f"{looks:,}" if looks else "–",
                f"{waits:,}",
                f"{eintr:,}",
                f"{1000 * eintr / max(1, waits):.2f}",
                *(f"{one['waits'][kind][1]:,}" for kind in kinds),
            ]
        )
    rows += [[name, *["missing"] * (len(kinds) + 4)] for name in data["missing"]]
    settings = data["settings"]
    remark = (
        f"{threads} threads, {settings['seconds']:g} s under each profiler at"
        f" {settings['rate_hz']:g} Hz (gdb: at its own rate); thread-samples only if the profiler"
        " counts its rounds."
    )
    ours = next((one for one in data["peers"] if one.get("counters")), None)
    if ours:
        counters = ours["counters"]
        remark += (
            f" flametap sent {counters['signals_sent']:,} signals and restarted"
            f" {counters['eintr_repaired']:,} calls; {counters['eintr_unrepairable']:,} calls"
            " returned EINTR."
        )
    columns = ("profiler", "thread-samples", "waits", "EINTR", "per 1000 waits", *kinds)
    return [Table("System calls that failed with EINTR", columns, rows, remark)]


BENCH = Bench(
    "eintr",
    "EINTRs over 10⁶ thread-samples of poll, epoll, select, nanosleep and sem loops, and peers'",
    arguments,
    measure,
    tables,
)

if __name__ == "__main__":
    run(BENCH)
