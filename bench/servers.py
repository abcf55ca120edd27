"""Measure the share of CPU time in the kernel for real servers: by flametap, the kernel and perf.

    python bench/servers.py [--quick] [--runs 1] [--seconds 10] [--rate 100] [--only NAME…]

Each server of ``serverlist.py`` runs on one CPU together with its load, and on all CPUs. The
server's busiest process is recorded with the default budget, and the kernel's own figures for the
same threads are read over the same time. perf then gets another window (``cpu-clock``, 999 Hz, all
processes, without stacks), also with the kernel's figures: differences between the two windows are
the server's. flametap's share is of the CPU time that has a stack.
"""

from __future__ import annotations

import argparse
import contextlib
import math
import os
import statistics
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import benchmark
import peers
import shares
from benchmark import Bench, run
from flametap.linux import procfs
from flametap.linux.procfs import TaskTimes
from realservers import Site
from reporting import Data, Table
from serverlist import SERVERS, Server
from stats import MISSING
from truth import PLACES, Place

QUICK = ("redis", "nginx")
QUICK_S = 3.0
CLOCK_MONOTONIC_COARSE = 6  # its resolution is the tick's length; clock_getres(2)
SETTLE_S = 1.5
PERF_HZ = 999.0  # high, since the other figures are compared with it
BAR_POINTS = 3.0
WHO = ("flametap", "kernel")
EINTR = ("repaired", "unrepairable")
HAS_NO_STACK = "of the CPU time has no stack: "


def arguments(parser: argparse.ArgumentParser) -> None:
    names = [server.name for server in SERVERS]
    parser.add_argument("--runs", type=int, default=1, help="of each (%(default)s)")
    parser.add_argument("--seconds", type=float, default=10.0, help="length of a recording")
    parser.add_argument("--rate", type=float, default=100.0, help="Hz")
    parser.add_argument("--only", nargs="+", choices=names, metavar="NAME", help=", ".join(names))
    parser.add_argument("--place", choices=[place.name for place in PLACES[:2]])


def measure(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    folder.chmod(0o755)  # servers go there as users of their own
    names = options.only or (QUICK if options.quick else [server.name for server in SERVERS])
    asked = [server for server in SERVERS if server.name in names]
    places = [place for place in PLACES[:2] if options.place in (None, place.name)]
    cells = [(server, place) for server in asked for place in places if not server.missing]
    seconds = min(options.seconds, QUICK_S) if options.quick else options.seconds
    found: list[dict[str, Any]] = []
    with contextlib.suppress(KeyboardInterrupt):  # the table is of what there is until then
        for _, (server, place) in benchmark.interleaved(cells, 0, options.runs):
            one: dict[str, Any] = {"server": server.name, "place": place.name}
            try:
                one |= _recorded(server, folder, _cpu(place), options.rate, seconds)
                said = f"{one['system']}, {one['errors']} errors of the load"
            except benchmark.FAILURES as error:
                said = one["error"] = f"{error}"[:300]
            benchmark.say(f"{server.name}, {place.name}: {said}")
            found.append(one)
    return {
        "recordings": found,
        "missing": {server.name: server.missing for server in asked if server.missing},
        "settings": {"seconds": seconds, "rate_hz": options.rate, "runs": options.runs},
        "tick_hz": round(1 / time.clock_getres(CLOCK_MONOTONIC_COARSE)),
    }


def _cpu(place: Place) -> int | None:
    return max(os.sched_getaffinity(0)) if place.pinned else None


def _recorded(
    server: Server, folder: Path, cpu: int | None, rate_hz: float, seconds: float
) -> dict[str, Any]:
    with Site(folder, cpu) as site:
        server.start(site)
        time.sleep(SETTLE_S)
        pid, output = site.busiest(), folder / "output"
        found = _by_flametap(pid, output, rate_hz, seconds)
        if not peers.PERF_ALL.missing:
            beside = _by_perf(pid, output.with_suffix(".perf"), seconds)
            found["system"] |= beside.pop("system")
            found |= beside
        found["errors"] = site.end_load()
    return found


def _by_flametap(pid: int, output: Path, rate_hz: float, seconds: float) -> dict[str, Any]:
    output.unlink(missing_ok=True)
    tids = procfs.list_tasks(pid)  # before the agent brings its own
    peer = peers.FLAMETAP_IN_BUDGET
    running = peer.start(pid, rate_hz, output, peer.options)
    try:
        spent = _spent(pid, tids, seconds)
    finally:
        ended = running.stop()
    if not output.exists():
        raise RuntimeError(ended.note or "no output")
    by_leaf, total_us = shares.of_leaves(peer.name, output)
    counters, notes = ended.status["counters"], ended.status["notes"]
    return {
        "system": {"flametap": shares.in_system(by_leaf), "kernel": _system_share(spent)},
        "cpu_s": (spent.cpu_ns or 0) / 1e9,
        "cores": {
            "flametap": total_us * 1000 / ended.status["duration_ns"],
            "kernel": (spent.cpu_ns or 0) / 1e9 / seconds,
        },
        "unattributed": by_leaf.get(shares.UNATTRIBUTED, 0.0),
        "because": [note.partition(HAS_NO_STACK)[2] for note in notes if HAS_NO_STACK in note],
        "samples": ended.status["cpu_samples"],
        "samples_per_cpu_s": ended.status["cpu_samples"] / (total_us / 1e6),
        "eintr_repaired": counters["eintr_repaired"],
        "eintr_unrepairable": counters["eintr_unrepairable"],
        "page_faults": spent.page_faults,
        "heaviest": dict(sorted(by_leaf.items(), key=lambda item: -item[1])[:8]),
        "notes": notes,
    }


def _by_perf(pid: int, output: Path, seconds: float) -> dict[str, Any]:
    output.unlink(missing_ok=True)
    running = peers.PERF_ALL.start(pid, PERF_HZ, output, peers.PERF_ALL.options)
    try:
        spent = _spent(pid, procfs.list_tasks(pid), seconds)
    finally:
        running.stop()
    share, samples = shares.in_kernel_by_perf(output, pid)
    return {
        "system": {"perf": share, "kernel_beside_perf": _system_share(spent)},
        "perf_samples": samples,
    }


def _spent(pid: int, tids: Iterable[int], seconds: float) -> TaskTimes:
    """Measure what these threads of a process use from now on."""
    before = _times(pid, tids)
    time.sleep(seconds)
    after = _times(pid, before)
    used = [now - before[tid] for tid, now in after.items()]
    return TaskTimes(
        sum(one.user_ns for one in used),
        sum(one.system_ns for one in used),
        sum(one.page_faults for one in used),
        sum(one.cpu_ns or 0 for one in used),
    )


def _times(pid: int, tids: Iterable[int]) -> dict[int, TaskTimes]:
    found = {}
    for tid in tids:
        with contextlib.suppress(*procfs.GONE):
            found[tid] = procfs.read_task_times(pid, tid, is_exact=True)
    return found


def _system_share(spent: TaskTimes) -> float:
    total_ns = spent.user_ns + spent.system_ns
    return spent.system_ns / total_ns if total_ns else 0.0


def _chance_points(one: Data, tick_hz: float) -> float:
    """Return the standard error of the difference between flametap and the kernel, which both take
    samples."""
    share = one["system"]["kernel"]
    taken = 1 / max(1, one["samples"]) + 1 / max(1, tick_hz * one["cpu_s"])
    return 100 * math.sqrt(share * (1 - share) * taken)


def _row(good: list[Data], tick_hz: float) -> list[str]:
    def middle(values: Iterable[float], digits: int = 1, scale: float = 100.0) -> str:
        return f"{scale * statistics.median(values):.{digits}f}"

    def system(who: str) -> str:
        known = [one["system"][who] for one in good if who in one["system"]]
        return middle(known) if known else MISSING

    differences = [one["system"]["flametap"] - one["system"]["kernel"] for one in good]
    why = next((reason for one in good for reason in one["because"]), "")
    unattributed = middle(one["unattributed"] for one in good)
    return [
        *map(system, WHO),
        middle(differences),
        middle((_chance_points(one, tick_hz) for one in good), scale=1.0),
        *map(system, ("perf", "kernel_beside_perf")),
        f"{unattributed}: {why}" if why else unattributed,
        middle((one["samples_per_cpu_s"] for one in good), 0, 1.0),
        " ".join(middle((one["cores"][who] for one in good), 2, 1.0) for who in WHO),
        " ".join(f"{sum(one[f'eintr_{how}'] for one in good)}" for how in EINTR),
        f"{sum(one['errors'] for one in good)}",
    ]


def tables(data: Data) -> list[Table]:
    columns = (
        *("server", "CPUs", "flametap, %", "kernel, %", "difference, points", "chance alone"),
        *("perf, %", "kernel beside perf, %", "[unattributed], %", "samples per CPU s"),
        *("cores used: flametap kernel", "EINTR repaired, not", "load's errors"),
    )
    rows = []
    for server in SERVERS:
        for place in PLACES[:2]:
            cell = [
                one
                for one in data["recordings"]
                if (one["server"], one["place"]) == (server.name, place.name)
            ]
            good = [one for one in cell if "error" not in one]
            if good:
                rows.append([server.name, place.name, *_row(good, data["tick_hz"])])
            elif cell:
                why = f"failed: {cell[0]['error']}"
                rows.append([server.name, place.name, why, *[MISSING] * (len(columns) - 3)])
    settings = data["settings"]
    remark = (
        f"Share of CPU time in the kernel. {settings['runs']} recordings of"
        f" {settings['seconds']:g} s each at {settings['rate_hz']:g} Hz with the default budget;"
        f" medians. The limit is {BAR_POINTS:g} points. Chance alone: the standard error of the"
        f" difference; the kernel takes samples, too, {data['tick_hz']} per second of CPU time."
        " perf's figures are from another window, with the kernel's share in that window. An"
        " interrupt that is pending while a system call returns is taken at the program's next"
        " instruction: kernel and perf count that time as the program's, flametap as the call's (3"
        " points of memcached's samples on one CPU)."
    )
    for name, what in data["missing"].items():
        remark += f" {name} was left out: no {', '.join(what)}."
    return [Table("User and system time of real servers", columns, rows, remark)]


BENCH = Bench(
    "servers",
    "user and system time of real servers under load: flametap, the kernel, perf",
    arguments,
    measure,
    tables,
)

if __name__ == "__main__":
    run(BENCH)
