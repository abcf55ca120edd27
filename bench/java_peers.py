"""Compare the self times of Java methods in one run: flametap, perf with a map, async-profiler.

    python bench/java_peers.py [--quick] [--seconds 40] [--pid PID] [--asprof FILE]

All look at the same process at the same time: ``targets/JavaMix.java``, or ``--pid``. perf and the
map of the Java machine (``jcmd PID Compiler.perfmap``, 17 and newer) know only which compiled
method contains an address, so flametap's innermost frame is reduced to that: inlined methods go to
the one that contains them, interpreted ones are "Interpreter". async-profiler is compared with the
innermost method, inlined or not. Time in the kernel and of threads that only one of them saw
(flametap's own, those that began later) is left out.

Then each profiler alone, in turn with none: the work that the program does per second of its CPU
time, by its own count. Not for ``--pid``.
"""

from __future__ import annotations

import argparse
import bisect
import os
import re
import shutil
import signal
import subprocess
import time
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import benchmark
import peers
import usage
from benchmark import Bench, run
from flametap.capture.capture_options import CaptureOptions
from flametap.capture.live import Capture
from flametap.model import MANAGED, Clock, FrameKind
from flametap.wire.abi import JAVA_INLINED, JAVA_TIER_SHIFT
from programs import TARGETS, Program
from reporting import Data, Table
from stats import spread_text

SHOWN = 20
RATE_HZ = 250.0  # more than the kernel's timers tick is not to be had for a thread's CPU time
PERF_HZ = 499  # not in step with them
SYMBOLS_S = 60.0
NONE = "no profiler"
SYNTHETIC_NODES = 4  # of the trie
_SAMPLE = re.compile(r"^\s*(\d+)\s+([0-9a-f]+)\s+(.*\(.*\))$")
_SIGNATURE = re.compile(r"^(?:\S+ )?([^ (]+)\(.*\)$")
_HIDDEN = re.compile(r"[/+.]0x[0-9a-f]{8,}")
_LAMBDA = re.compile(r"(\$\$Lambda)\$\d+")

Shares = dict[str, float]


class Code(NamedTuple):
    """Code of the Java machine, as its map has it."""

    start: int
    end: int
    name: str


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seconds", type=float, default=40.0, help="length of the recording")
    parser.add_argument("--pid", type=int, default=0, help="a Java process at work (17 or newer)")
    parser.add_argument("--asprof", type=Path, help="async-profiler's program, if there is one")
    parser.add_argument("--rounds", type=int, default=5, help="windows of each profiler alone")
    parser.add_argument("--java", default="java", help="its command")


def measure(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    if options.quick:
        options.seconds, options.rounds = 6.0, 1
    if options.pid:
        return {**_agreement(options.pid, options, folder), "alone": [], "program": "of --pid"}
    source = TARGETS / "JavaMix.java"
    subprocess.run(["javac", "--release", "11", "-d", folder, source], check=True)
    command = [options.java, "-Xmx256m", "-cp", folder, "JavaMix", "2"]
    with Program(command) as target:
        time.sleep(min(10.0, options.seconds / 2))  # until the most is compiled
        found = _agreement(target.pid, options, folder)
    with Program(command) as target:
        time.sleep(min(10.0, options.seconds / 2))
        alone = _alone(target, options, folder)
    return {**found, "alone": alone, "program": "targets/JavaMix.java, two threads"}


def _alone(target: Program, options: argparse.Namespace, folder: Path) -> list[dict[str, Any]]:
    """Return windows of each profiler: the work done per second of CPU time."""
    windows = []
    others = ["flametap", "perf", *(["async-profiler"] if options.asprof else [])]
    names = [NONE, *(each for other in others for each in (other, NONE))]
    for _ in range(options.rounds):
        for name in names:
            try:
                stop = _start(name, target.pid, options, folder)
                time.sleep(1.0)
                work, cpu_ns = int(target.ask()), usage.cpu_ns(target.pid)
                time.sleep(4.0)
                work, cpu_ns = int(target.ask()) - work, usage.cpu_ns(target.pid) - cpu_ns
                stop()
            except benchmark.FAILURES as error:
                benchmark.say(f"{name}: {error}")
                continue
            windows.append({"profiler": name, "work_per_cpu_s": work / (cpu_ns / 1e9)})
            benchmark.say(f"{name}: {windows[-1]['work_per_cpu_s']:.0f}")
    return windows


def _start(name: str, pid: int, options: argparse.Namespace, folder: Path) -> Any:
    """Start a profiler; return what stops it."""
    if name == "flametap":
        return peers.Flametap(pid, 100.0, folder / "alone", ()).stop
    if name == "perf":
        return peers.PERF_FLAT.start(pid, 100.0, folder / "alone.data", ()).stop
    if name == "async-profiler":
        common = [str(options.asprof), "-e", "cpu", "-i", "10ms", "--cstack", "vm"]
        subprocess.run([*common, "start", str(pid)], check=True, capture_output=True)
        ending = _words(options.asprof, "stop -o collapsed -f", folder / "alone.txt", pid)
        return lambda: subprocess.run(ending, check=True, capture_output=True)
    return lambda: None


# ---- one run


def _words(*parts: object) -> list[str]:
    return " ".join(map(str, parts)).split()


def _agreement(pid: int, options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    before = set(map(int, os.listdir(f"/proc/{pid}/task")))
    codes = _map(pid)
    data, collapsed = folder / "perf.data", folder / "collapsed.txt"
    capture = Capture(pid, CaptureOptions(rate_hz=RATE_HZ, budget_ppm=0))
    try:
        capture.start()
        time.sleep(1.5)
        perf = subprocess.Popen(
            _words("perf record -q -e cpu-clock -F", PERF_HZ, "-p", pid, "-o", data)
        )
        other = None
        if options.asprof:
            words = _words(options.asprof, "-d", round(options.seconds), "-e cpu -i 3ms --all-user")
            words += _words("--cstack vm -t -o collapsed -f", collapsed, pid)
            other = subprocess.Popen(words, stdout=subprocess.DEVNULL)
        time.sleep(0.5)
        begin_ns = capture.profile.now_ns
        time.sleep(options.seconds)
        end_ns = capture.profile.now_ns
        perf.send_signal(signal.SIGINT)
        perf.wait(60)
        if other:
            other.wait(60)
        codes += _map(pid)
        tids = before & set(map(int, os.listdir(f"/proc/{pid}/task")))
        capture.stop()
        capture.finish_symbols(SYMBOLS_S)
        whole, innermost = _ours(capture, tids, begin_ns, end_ns)
    finally:
        capture.close()
    theirs = _perf(data, codes, tids)
    third = _async_profiler(collapsed, tids) if other and collapsed.exists() else Counter()
    return {
        "seconds": options.seconds,
        "perf": _compared(whole, theirs),
        "async_profiler": _compared(innermost, third) if third else [],
        "samples": {"perf": sum(theirs.values()), "async-profiler": sum(third.values())},
        "flametap_cpu_s": sum(whole.values()) / 1e9,
    }


def _ours(
    capture: Capture, tids: set[int], begin_ns: int, end_ns: int
) -> tuple[Counter[str], Counter[str]]:
    """Return the CPU time of methods that contain the leaf's code, and of innermost methods."""
    profile, table = capture.profile, capture.names
    chosen = frozenset(
        each.thread_id for each in capture.profile.thread_infos() if each.tid in tids
    )
    leaves = profile.leaf_weights(Clock.CPU, chosen, begin_ns, end_ns)
    trie, kernel = profile.trie(), table.kernel()
    whole: Counter[str] = Counter()
    innermost: Counter[str] = Counter()
    for node, weight in zip(leaves.node.tolist(), leaves.weight.tolist(), strict=True):
        address = int(trie.address[node])
        if node < SYNTHETIC_NODES or address in kernel:
            continue
        frame, module = profile.locate(address)
        if frame.module_id != MANAGED:
            whole[module] += weight
            innermost[module] += weight
            continue
        innermost[_name(table.frames(address)[-1].function)] += weight
        while frame.position & JAVA_INLINED:
            node = int(trie.parent[node])
            address = int(trie.address[node])
            frame, _ = profile.locate(address)
        tier = frame.position >> JAVA_TIER_SHIFT & 15
        name = _name(table.frames(address)[-1].function)
        whole["Interpreter" if tier == 0 else name] += weight
    return whole, innermost


def _name(function: Any) -> str:
    is_stub = function.kind is not FrameKind.JAVA
    return "[stubs]" if is_stub else str(function.name)


def _map(pid: int) -> list[Code]:
    """Return the code that the Java machine has now, by its own map."""
    beside = Path(os.readlink(f"/proc/{pid}/exe")).with_name("jcmd")
    jcmd = str(beside) if beside.exists() else shutil.which("jcmd") or "jcmd"
    subprocess.run([jcmd, str(pid), "Compiler.perfmap"], check=True, capture_output=True)
    path = Path(f"/tmp/perf-{pid}.map")
    lines = path.read_text("utf-8", "replace").splitlines()
    path.unlink()
    codes = []
    for line in lines:
        start, size, name = line.split(" ", 2)
        codes.append(Code(int(start, 16), int(start, 16) + int(size, 16), _plain(name)))
    return codes


def _plain(name: str) -> str:
    """Return a name of the map without result, parameters, and the numbers of classes."""
    found = _SIGNATURE.match(name)
    if not found:
        return name if name == "Interpreter" else "[stubs]"
    return _LAMBDA.sub(r"\1", _HIDDEN.sub("", found[1]))


def _perf(data: Path, codes: list[Code], tids: set[int]) -> Counter[str]:
    command = ["perf", "script", "-i", str(data), "-F", "tid,ip,sym,dso"]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    codes = sorted(set(codes))
    starts = [code.start for code in codes]
    found: Counter[str] = Counter()
    for line in text.splitlines():
        sample = _SAMPLE.match(line)
        if not sample or int(sample[1]) not in tids:
            continue
        addr = int(sample[2], 16)
        if addr >> 47:
            continue  # the kernel
        at = bisect.bisect_right(starts, addr) - 1
        name = Path(line.rpartition("(")[2].rstrip(")")).name
        # Newest first: the second map's entries of the same place follow the first's.
        while at >= 0 and codes[at].end <= addr and addr - codes[at].start < 1 << 20:
            at -= 1
        if at >= 0 and codes[at].start <= addr < codes[at].end:
            name = codes[at].name
        found["[jit]" if name.startswith("perf-") else name] += 1
    return found


def _async_profiler(collapsed: Path, tids: set[int]) -> Counter[str]:
    found: Counter[str] = Counter()
    for line in collapsed.read_text("utf-8", "replace").splitlines():
        stack, _, count = line.rpartition(" ")
        frames = stack.split(";")
        tid = re.search(r"tid=(\d+)", frames[0])
        if tid and int(tid[1]) not in tids:
            continue
        leaf = frames[-1]
        is_java = "/" in leaf.rpartition(".")[0] or re.match(r"^[\w$]+\.[\w$<>]+$", leaf)
        leaf = re.sub(r"_\[\w\]$", "", leaf).replace("/", ".")
        found[_LAMBDA.sub(r"\1", _HIDDEN.sub("", leaf)) if is_java else "[native]"] += int(count)
    return found


def _is_java(name: str) -> bool:
    return name == "Interpreter" or ("." in name and ".so" not in name)


def _compared(ours: Counter[str], theirs: Counter[str]) -> list[dict[str, Any]]:
    """Return the shares of the heaviest functions, in percent."""
    our_total, their_total = sum(ours.values()) or 1, sum(theirs.values()) or 1
    heaviest = sorted(
        set(ours) | set(theirs), key=lambda n: -max(ours[n] / our_total, theirs[n] / their_total)
    )
    java = [name for name in heaviest if _is_java(name)]
    return [
        {
            "name": name,
            "flametap": 100 * ours[name] / our_total,
            "other": 100 * theirs[name] / their_total,
        }
        for name in java[:SHOWN]
    ]


def tables(data: Data) -> list[Table]:
    found = []
    for key, name in (("perf", "perf and a map"), ("async_profiler", "async-profiler")):
        rows = [
            [
                row["name"],
                f"{row['flametap']:.1f}",
                f"{row['other']:.1f}",
                f"{row['flametap'] - row['other']:+.1f}",
            ]
            for row in data[key]
        ]
        columns = ["method", "flametap, %", f"{name}, %", "difference, points"]
        note = f"{data['program']}, {data['seconds']:g} s, {data['flametap_cpu_s']:.0f} s of CPU"
        note += f" time outside the kernel, in which flametap took {RATE_HZ:g} samples a second."
        found.append(Table(f"Self time beside {name}", columns, rows, note))
    found.append(_slowdown(data))
    return found


def _slowdown(data: Data) -> Table:
    windows = data["alone"]
    found: dict[str, list[float]] = {}
    for before, window, after in zip(windows, windows[1:], windows[2:], strict=False):
        base = (before["work_per_cpu_s"] + after["work_per_cpu_s"]) / 2
        if before["profiler"] == after["profiler"] == NONE != window["profiler"]:
            slower = 100 * (base / window["work_per_cpu_s"] - 1)
            found.setdefault(window["profiler"], []).append(slower)
            noise = 100 * (after["work_per_cpu_s"] / before["work_per_cpu_s"] - 1)
            found.setdefault(NONE, []).append(noise)
    rows = [[name, spread_text(found[name], 1)] for name in sorted(found, key=lambda n: n != NONE)]
    note = (
        "At 100 Hz, by the work done per second of CPU time, compared with windows just before and"
        " after; the first line compares these with each other."
    )
    return Table("Slowdown of a Java program", ["profiler", "slowdown, %"], rows, note)


BENCH = Bench(
    "java_peers",
    "self times of Java methods beside perf with a map, and async-profiler; slowdown",
    arguments,
    measure,
    tables,
)

if __name__ == "__main__":
    run(BENCH)
