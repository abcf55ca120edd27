"""What flametap costs: time to the first graph, time per sample, slowdown of the target.

    make bench ARGS="--seconds 20 --rates 100 1000"

Slowdown is measured on twins: two copies of ``twin.c`` run side by side, first both alone, then
one of them profiled. Compared is the work each did per second of its own CPU time, so that other
load on the machine and the profiler's own use of the other cores do not count; what the profiler
uses itself is shown by its side. The twins change roles between rounds.

Prints a table to stdout. Needs gcc and the right to attach.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

from flametap.capture import Capture, CaptureOptions
from flametap.model import Clock, Status

HERE = Path(__file__).resolve().parent
FIRST_GRAPH_DEADLINE_S = 30.0
SETTLE_S = 0.5  # after an attach: compiling unwind tables is no steady cost


class Twin:
    """A running copy of twin.c."""

    def __init__(self, program: Path, thread_count: int) -> None:
        self.process = subprocess.Popen(
            [program, str(thread_count)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def read(self) -> tuple[int, int]:
        """(rounds of work, CPU nanoseconds) since its start."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        rounds, cpu_ns = self.process.stdout.readline().split()
        return int(rounds), int(cpu_ns)

    def close(self) -> None:
        self.process.communicate()


def speeds(twins: tuple[Twin, Twin], seconds: float) -> tuple[float, float]:
    """Rounds per CPU nanosecond of both, over the same stretch of time."""
    before = [twin.read() for twin in twins]
    time.sleep(seconds)
    after = [twin.read() for twin in twins]
    first, second = ((a[0] - b[0]) / (a[1] - b[1]) for a, b in zip(after, before, strict=True))
    return first, second


def slowdown(
    program: Path, rate_hz: float, thread_count: int, seconds: float, profiled: int
) -> tuple[float, Status]:
    """Share of its speed that the profiled twin loses (0.01 is 1 %), and the last status."""
    twins = (Twin(program, thread_count), Twin(program, thread_count))
    capture = Capture(twins[profiled].process.pid, CaptureOptions(rate_hz=rate_hz, budget_ppm=0))
    try:
        alone = speeds(twins, seconds)
        capture.start()
        time.sleep(SETTLE_S)
        watched = speeds(twins, seconds)
        capture.stop()
        status = capture.status()
    finally:
        capture.close()
        for twin in twins:
            twin.close()
    other = 1 - profiled
    return 1 - (watched[profiled] / watched[other]) / (alone[profiled] / alone[other]), status


def seconds_to_first_graph(program: Path) -> float:
    """From the start of the attach to a tree whose frames all have names."""
    twin = Twin(program, 1)
    capture = Capture(twin.process.pid, CaptureOptions())
    began = time.monotonic()
    try:
        capture.start()
        while time.monotonic() - began < FIRST_GRAPH_DEADLINE_S:
            tree = capture.tree(Clock.CPU, None)
            if len(tree.parent) > 1 and capture.status().symbols_pending == 0:
                return time.monotonic() - began
            time.sleep(0.01)
        raise TimeoutError("no graph with names within 30 s")
    finally:
        capture.close()
        twin.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=10.0, help="length of each stretch")
    parser.add_argument("--rates", type=float, nargs="+", default=[100.0, 1000.0], help="Hz")
    parser.add_argument("--threads", type=int, default=1, help="busy threads of each twin")
    parser.add_argument("--rounds", type=int, default=4, help="how often each rate is measured")
    options = parser.parse_args()

    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "twin"
        flags = ["-std=gnu11", "-O2", "-g", "-fomit-frame-pointer", "-pthread"]
        subprocess.run(["gcc", *flags, "-o", program, HERE / "twin.c"], check=True)

        firsts = [seconds_to_first_graph(program) for _ in range(options.rounds)]
        print(f"attach to first graph with names: {statistics.median(firsts):.2f} s (median)")
        print(
            f"{'rate':>9}  {'slowdown: median, range':>32}  {'handler: p50, p99':>18}  sampler CPU"
        )
        for rate_hz in options.rates:
            results = [
                slowdown(program, rate_hz, options.threads, options.seconds, index % 2)
                for index in range(options.rounds)
            ]
            losses = sorted(share * 100 for share, _ in results)
            median_us = statistics.median(one.handler_p50_ns / 1000 for _, one in results)
            worst_us = max(one.handler_p99_ns / 1000 for _, one in results)
            sampler_ns = sum(one.counters["sampler_cpu_ns"] for _, one in results)
            sampler = 100 * sampler_ns / max(1, sum(one.duration_ns for _, one in results))
            print(
                f"{rate_hz:6.0f} Hz  {statistics.median(losses):12.2f} %"
                f" ({losses[0]:+.2f} … {losses[-1]:+.2f})"
                f"  {median_us:7.2f}, {worst_us:6.2f} µs  {sampler:.2f} % of a core"
            )


if __name__ == "__main__":
    main()
