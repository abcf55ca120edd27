"""Compare flametap with node's own profiler and with perf, on real JavaScript programs.

    python bench/javascript.py [--packages FOLDER] [--node COMMAND] [--only NAME…] [--seconds 10]

flametap and one of the others sample the same process at the same time; servers are loaded by wrk.
(With the options that perf's maps need, node's own profiler locks itself up.) Functions are told
apart by file, line and column where they begin, so no name has to be equal.

Node's profiler has a thread that sends a signal each millisecond: it counts wall time, and so does
flametap here. A signal from another CPU comes late, mostly at the end of a system call, and a wait
for a CPU counts where the CPU was lost. So the main thread of the program has CPU 0 for itself; the
sending thread is there, too, and goes first. All other threads, and flametap, are on CPU 1.

Node's profiler gives a function the time of the builtins and of the native code that it calls, but
not that of the garbage collector: flametap's stacks are summed up to the innermost JavaScript
function, without those that collect. Of a builtin without a frame of its own it loses the caller,
and the caller of that gets the time. So flametap's stacks are compared twice: without these callers
and with them. It knows inlined functions only in code that was compiled while it ran, so it runs
from the beginning.

perf says which code runs: inlined functions belong to what contains them, and only stacks whose
innermost function is JavaScript count, as parts of all CPU time.

FOLDER keeps the packages that npm installs for the next run. Needs node, npm, wrk, perf, nm,
two CPUs, and the right to give a thread a real-time priority.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from statistics import median
from typing import Any

import benchmark
from benchmark import Bench, run
from flametap.capture.capture_options import CaptureOptions
from flametap.capture.live import Capture
from flametap.errors import FlametapError
from flametap.model import Clock, FrameKind, Verdict
from flametap.tree.calltree import build
from javascript_peers import TOP, differences, of_perf, of_profile
from javascript_sums import Builtins, own, with_calls
from reporting import Data, Table
from stats import MISSING

sys.path.append(str(Path(__file__).resolve().parent.parent / "tests" / "support"))
from recording import capturing

PROGRAMS = ("express", "fastify", "webpack", "tsc", "eslint", "prettier")
PACKAGES = (
    *("express@5", "fastify@5", "webpack@5", "typescript@5", "rxjs@7", "lodash-es@4"),
    *("eslint@9", "prettier@3"),
)
SERVERS = ("express", "fastify")
TARGET = Path(__file__).parent / "targets" / "javascript.cjs"
WARM_UP_S = 8.0  # of CPU time
LEAST_OPERATIONS = 3
SETTLE_S = 1.0  # the attach, and code that is met for the first time
RATE_HZ = 1000.0
# perf's maps need these; they also have every function, interpreted or not, as code of its own.
MAPPED = ("--perf-basic-prof", "--interpreted-frames-native-stack")


class Node:
    """One running program."""

    def __init__(
        self, options: argparse.Namespace, name: str, flags: tuple[str, ...], *, is_profiled: bool
    ) -> None:
        command = [options.node, *flags, str(TARGET), name, *(["profiled"] if is_profiled else [])]
        if name in SERVERS:
            command = ["taskset", "-c", "0", *command]
        self.process = subprocess.Popen(
            command,
            cwd=options.packages,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.pid = self.process.pid
        self.port = int(self._line("port ").split()[1])

    def _line(self, start: str) -> str:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith(start):
                return line
        raise RuntimeError("the program has ended")

    def ask(self, command: str, answer: str) -> str:
        """Give the program a command, and return its answer."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{command}\n")
        self.process.stdin.flush()
        return self._line(answer)

    def work(self, seconds: float) -> None:
        """Wait until the program has used so much CPU time."""

        def used_s() -> float:
            words = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
            return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")

        end_s = used_s() + seconds
        while used_s() < end_s:
            if self.process.poll() is not None:
                raise RuntimeError("the program has ended")
            time.sleep(0.1)

    def cost_us(self, seconds: float) -> float:
        """CPU time for an operation, of those that end within some seconds, of three at least."""
        first = last = self._state()
        while not first["operations"]:
            time.sleep(0.1)
            first = last = self._state()
        while last["cpu_us"] < first["cpu_us"] + seconds * 1e6 or (
            last["operations"] < first["operations"] + LEAST_OPERATIONS
        ):
            time.sleep(0.1)
            last = self._state()
        return (last["cpu_us"] - first["cpu_us"]) / (last["operations"] - first["operations"])

    def _state(self) -> dict[str, int]:
        state: dict[str, int] = json.loads(self.ask("state", "{"))
        return state


@contextmanager
def running(
    options: argparse.Namespace, name: str, *flags: str, is_profiled: bool = False
) -> Iterator[Node]:
    """A program under load, warm."""
    node = Node(options, name, flags, is_profiled=is_profiled)
    load = None
    try:
        if node.port:
            url = f"http://127.0.0.1:{node.port}/"
            paths = options.packages / "wrk.lua"
            paths.write_text(
                'local n = 0\nrequest = function()\n n = n + 1\n return wrk.format("GET", '
                '(n % 2 == 0 and "/search/" or "/page/") .. "word" .. n % 97)\nend\n'
            )
            command = ["wrk", "-t1", "-c16", "-d600", "-s", str(paths), url]
            load = subprocess.Popen(["taskset", "-c", "1", *command], stdout=subprocess.DEVNULL)
        node.work(WARM_UP_S)
        yield node
    finally:
        if load is not None:
            load.kill()
            load.wait()
        node.process.kill()
        node.process.communicate()


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--packages", type=Path, help="folder for the packages (a temporary one)")
    parser.add_argument("--node", default="node", help="command of node")
    parser.add_argument("--seconds", type=float, default=10.0, help="CPU time of a recording")
    parser.add_argument("--rounds", type=int, default=3, help="of the measurement of slowdown")
    parser.add_argument("--only", nargs="+", choices=PROGRAMS, default=PROGRAMS)


def measure(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    found = []
    if options.quick:
        options.seconds, options.rounds = 2.0, 1
    options.packages = (options.packages or folder / "packages").absolute()
    if not (options.packages / "node_modules").exists():
        options.packages.mkdir(exist_ok=True)
        (options.packages / "package.json").write_text("{}")
        install = ["npm", "install", "--no-audit", "--no-fund", "--silent", *PACKAGES]
        subprocess.run(install, cwd=options.packages, check=True)
    version = subprocess.check_output([options.node, "--version"], text=True).strip()
    for name in options.only[:1] if options.quick else options.only:
        benchmark.say(name)
        result: dict[str, Any] = {"name": name}
        try:
            with running(options, name) as node:
                result |= names(node, options.seconds)
                result["slowdown"] = slowdown(node, options.seconds / 10, options.rounds)
            with running(options, name, is_profiled=True) as node:
                result |= beside_own(node, options.seconds, folder)
            with running(options, name, *MAPPED) as node:
                result["perf"] = beside_perf(node, options.seconds, folder)
        except (*benchmark.FAILURES, FlametapError) as error:
            result["error"] = str(error)
        found.append(result)
    return {"node": version, "seconds": options.seconds, "rate_hz": RATE_HZ, "programs": found}


def slowdown(node: Node, seconds: float, rounds: int) -> dict[str, list[float]]:
    """How much more CPU time an operation takes under flametap than before and after, by rate."""
    found: dict[str, list[float]] = {}
    before = node.cost_us(seconds) if rounds else 0.0
    for _ in range(rounds):
        for rate_hz in (100.0, 1000.0):
            with capturing(node.pid, rate_hz=rate_hz) as capture:
                time.sleep(SETTLE_S)
                cost = node.cost_us(seconds)
                capture.stop()
            after = node.cost_us(seconds)
            found.setdefault(f"{rate_hz:g}", []).append(2 * cost / (before + after) - 1)
            before = after
    return found


def names(node: Node, seconds: float) -> dict[str, Any]:
    """What part of the time in JavaScript has a function with a file and a line."""
    with capturing(node.pid, rate_hz=RATE_HZ) as capture:
        node.work(seconds)
        capture.stop()
        capture.finish_symbols(60)
        tree = build(capture.profile, capture.names, Clock.CPU)
        all_ns = named_ns = lines_ns = 0
        for at in range(1, len(tree.parent)):
            function = tree.functions[tree.function[at]]
            is_named = function.kind is FrameKind.JAVASCRIPT and bool(function.file)
            if is_named or function.name in ("[unknown JavaScript function]", "[jit]"):
                total_ns = int(tree.total_ns[at])
                all_ns += total_ns
                named_ns += total_ns * is_named
                lines_ns += total_ns * (is_named and int(tree.line[at]) > 0)
        verdicts = capture.status().verdict_cpu_ns
        roots = sum(verdicts.get(each.name, 0) for each in Verdict if each.root_reached)
        return {
            "named": named_ns / max(all_ns, 1),
            "lines": lines_ns / max(all_ns, 1),
            "complete": roots / max(sum(verdicts.values()), 1),
            "exact": verdicts.get("COMPLETE", 0) / max(sum(verdicts.values()), 1),
        }


def beside_own(node: Node, seconds: float, folder: Path) -> dict[str, Any]:
    """Differences to node's own profiler: without the callers that it loses, and with them."""
    profile = folder / "own.cpuprofile"
    before = threads_of(node.pid)
    with capturing(node.pid, rate_hz=RATE_HZ) as capture:
        node.ask("start", "started")
        with apart(node.pid, threads_of(node.pid) - before):
            node.work(seconds)
        node.ask(f"stop {profile}", "stopped")
        capture.stop()
        capture.finish_symbols(60)
        losing = with_calls(capture, node.pid, Builtins(node.pid))
        whole = with_calls(capture, node.pid)
    theirs = of_profile(json.loads(profile.read_text()))
    for each in (losing, whole, theirs):  # its own start and end
        for place in [place for place in each if place.startswith("node:inspector:")]:
            del each[place]
    return {
        "own": differences(losing, theirs),
        "own_whole": differences(whole, theirs),
    }


def threads_of(pid: int) -> set[int]:
    """Ids of the threads of a process."""
    return {int(name) for name in os.listdir(f"/proc/{pid}/task")}


@contextmanager
def apart(pid: int, senders: set[int]) -> Iterator[None]:
    """Leave CPU 0 to the main thread of a program and to the senders of signals, which go first."""
    everywhere = os.sched_getaffinity(0)
    for tid in threads_of(pid):
        os.sched_setaffinity(tid, {0 if tid == pid or tid in senders else 1})
    for tid in senders:
        os.sched_setscheduler(tid, os.SCHED_FIFO, os.sched_param(1))
    for tid in threads_of(os.getpid()):
        os.sched_setaffinity(tid, {1})
    try:
        yield
    finally:
        for tid in threads_of(os.getpid()):
            os.sched_setaffinity(tid, everywhere)


def beside_perf(node: Node, seconds: float, folder: Path) -> dict[str, Any]:
    """Differences to perf."""
    samples = folder / "perf.data"
    command = ["perf", "record", "-q", "-F", "999", "-p", str(node.pid), "-o", str(samples)]
    capture = Capture(node.pid, CaptureOptions(rate_hz=RATE_HZ, budget_ppm=0, inlines=False))
    with closing(capture):
        capture.start()
        with subprocess.Popen(command) as perf:
            node.work(seconds)
            perf.send_signal(signal.SIGINT)
        capture.stop()
        capture.finish_symbols(60)
        leaves = own(capture, node.pid)
        (main,) = (each for each in capture.profile.thread_infos() if each.tid == node.pid)
    script = subprocess.run(
        ["perf", "script", "-i", str(samples), "-F", "ip,sym", "--tid", str(node.pid)],
        capture_output=True,
        text=True,
        check=True,
    )
    lines = script.stdout.splitlines()
    return differences(leaves, of_perf(lines), (main.cpu_ns, len(lines)))


def _percent(shares: Sequence[float]) -> str:
    return f"{100 * median(shares):.1f}" if shares else MISSING


def _row(program: dict[str, Any]) -> list[str]:
    if "error" in program:
        return [program["name"], program["error"][:80], *[""] * 7]
    worst = {
        peer: f"{program[peer]['worst'][0][0]:+.1f} ({program[peer]['worst'][0][1]})"
        for peer in ("own", "own_whole", "perf")
    }
    return [
        program["name"],
        f"{program['named']:.2%}",
        f"{program['lines']:.2%}",
        f"{program['complete']:.2%}",
        *(_percent(program["slowdown"].get(rate, ())) for rate in ("100", "1000")),
        *worst.values(),
    ]


def tables(data: Data) -> list[Table]:
    header = [
        *("program", "JavaScript with function and file", "with line", "root reached"),
        *("slowdown at 100 Hz, %", "at 1 000 Hz, %", "largest difference to node's own"),
        *("to node's own, with the callers that it loses", "to perf"),
    ]
    note = (
        f"node {data['node'].lstrip('v')}, {data['seconds']:g} s each. Slowdown: CPU time for an "
        f"operation. Differences: in points, among the {TOP} heaviest of each."
    )
    rows = [_row(program) for program in data["programs"]]
    return [Table("JavaScript programs beside node's profiler and perf", header, rows, note)]


BENCH = Bench(
    "javascript",
    "JavaScript programs: names, slowdown, node's profiler, perf",
    arguments,
    measure,
    tables,
)


if __name__ == "__main__":
    run(BENCH)
