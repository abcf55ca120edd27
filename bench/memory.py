"""Measure memory of agent, target and host while 10⁵ stacks are sampled at the highest rate.

    python bench/memory.py [--quick] [--seconds 100] [--rate 10000] [--threads 2] [--paths 20000]

Shows whether memory grows with the number of samples. perf runs on the same program afterwards, for
a shorter time and at 1 000 Hz: its memory, and the bytes it writes per sample. The host alone with
10⁷ intervals: ``store.py``.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import frida

import benchmark
import peers
import programs
import usage
from benchmark import Bench, run
from flametap.inject.frida.injector import ATTACH_OPTIONS
from reporting import Data, Table

PEER_RATE_HZ = 1000.0
BAR_AGENT_MB = 16.0
BAR_HOST_MB = 300.0


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seconds", type=float, default=100.0, help="under flametap")
    parser.add_argument("--rate", type=float, default=10000.0, help="Hz")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--paths", type=int, default=20000, help="different chains of calls")


def measure(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    if options.quick:
        options.seconds = 8.0
    program = programs.build("stacks", folder)
    command = [str(program), str(options.threads), str(options.paths)]
    data: dict[str, Any] = {
        "settings": {"seconds": options.seconds, "rate_hz": options.rate},
        "peers": [],
    }
    with programs.Program(command) as target:
        data["frida_kb"] = _frida_alone_kb(target.pid)
    with programs.Program(command) as target:
        data["flametap"] = _watch_flametap(target.pid, options, folder / "output")
    for peer in (peers.PERF_FP, peers.PERF_DWARF):
        if not peer.missing:
            with programs.Program(command) as target:
                data["peers"].append(_watch_peer(target.pid, peer, options, folder / "output"))
    return data


def _frida_alone_kb(pid: int) -> int:
    """Return by how much Frida with an empty script increases the target's RSS, in kB."""
    before_kb = usage.status_kb(pid, "VmRSS")
    session = frida.attach(pid, **ATTACH_OPTIONS)
    try:
        script = session.create_script("")
        script.load()
        time.sleep(1.0)
        return usage.status_kb(pid, "VmRSS") - before_kb
    finally:
        session.detach()


def _watch_flametap(pid: int, options: argparse.Namespace, output: Path) -> dict[str, Any]:
    before_kb = usage.status_kb(pid, "VmRSS")
    series = []
    running = peers.Flametap(pid, options.rate, output, ())
    try:
        began = time.monotonic()
        steps = 10
        for step in range(1, steps + 1):
            time.sleep(max(0.0, began + options.seconds * step / steps - time.monotonic()))
            mark = running.mark()
            series.append(
                {
                    "samples": mark.status["samples"],
                    "agent_bytes": mark.status["counters"]["bytes_held"],
                    "target_kb": usage.status_kb(pid, "VmRSS") - before_kb,
                    "host_kb": mark.rss_kb,
                }
            )
            benchmark.say(f"{series[-1]}")
    finally:
        ended = running.stop()
    time.sleep(1.0)  # what it maps is given back a moment after the detach
    return {
        "series": series,
        "after_kb": usage.status_kb(pid, "VmRSS") - before_kb,
        "stacks": ended.status["stacks"],
        "view_s": ended.status["view_s"],
        "host_peak_kb": ended.status["peak_rss_kb"],
        "counters": ended.status["counters"],
        "folded_bytes": output.stat().st_size,
    }


def _watch_peer(
    pid: int, peer: peers.Peer, options: argparse.Namespace, output: Path
) -> dict[str, Any]:
    output.unlink(missing_ok=True)
    running = peer.start(pid, PEER_RATE_HZ, output, peer.options)
    time.sleep(min(10.0, options.seconds))
    mark = running.mark()
    ended = running.stop()
    return {
        "peer": peer.name,
        "samples": ended.samples,
        "rss_kb": mark.rss_kb,
        "file_bytes": output.stat().st_size,
    }


def tables(data: Data) -> list[Table]:
    ours = data["flametap"]
    columns = (
        *("samples", "agent has mapped, MB", "target's RSS grew by, MB"),
        *("without Frida, MB", "host's RSS, MB"),
    )
    rows = [
        [
            f"{one['samples']:,}",
            f"{one['agent_bytes'] / 1e6:.1f}",
            f"{one['target_kb'] / 1024:.1f}",
            f"{(one['target_kb'] - data['frida_kb']) / 1024:.1f}",
            f"{one['host_kb'] / 1024:.0f}",
        ]
        for one in ours["series"]
    ]
    lost = {name: ours["counters"][name] for name in ("traces_lost", "intervals_lost", "ring_full")}
    remark = (
        f"{ours['stacks']:,} different stacks; a view of all took"
        f" {ours['view_s']:.2f} s of CPU time;"
        f" the host's peak was {ours['host_peak_kb'] / 1024:.0f} MB; {ours['after_kb'] / 1024:.1f}"
        " MB of the target's RSS were left after the detach. Lost:"
        f" {', '.join(f'{name} {n:,}' for name, n in lost.items())}. Bars: agent"
        f" {BAR_AGENT_MB:g} MB and its tables, host {BAR_HOST_MB:g} MB. Frida alone, with"
        f" an empty script, takes {data['frida_kb'] / 1024:.1f} MB. The agent counts what it has"
        " mapped, touched or not."
    )
    found = [Table("Memory by number of samples, flametap", columns, rows, remark)]
    rows = [
        [
            one["peer"],
            f"{one['samples']:,}",
            f"{one['rss_kb'] / 1024:.0f}",
            f"{one['file_bytes'] / max(1, one['samples']):,.0f}",
            f"{one['file_bytes'] / max(1, one['samples']) * 1e7 / 1e9:.1f}",
        ]
        for one in data["peers"]
    ]
    other = ("peer", "samples", "its RSS, MB", "bytes written per sample", "GB for 10⁷ samples")
    return [*found, Table("The same program under perf at 1000 Hz", other, rows)]


BENCH = Bench(
    "memory",
    "memory of agent, target and host over millions of samples with 10⁵ different stacks",
    arguments,
    measure,
    tables,
)

if __name__ == "__main__":
    run(BENCH)
