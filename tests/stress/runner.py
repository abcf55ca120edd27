"""Run scenarios, several at a time, and write down each result at once.

``make stress`` and, for one scenario at a time, ``test_stress.py``. The result file holds one JSON
object per line and is appended to: a run that is cut short loses nothing, and ``--until`` goes on
where the last one ended.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from pathlib import Path

import catalogue
import report
from capabilities import find
from harness import Run, Scenario
from result import CLEAN, FINDING, SKIPPED, Result, read_results, sampled_s
from targetbuild import Builder

RATE_HZ = 1000.0


def run_one(chosen: Scenario, seconds: float, builder: Builder, seed: int) -> Result:
    """Run a scenario to its end, whatever happens in it."""
    began = time.monotonic()
    missing = [name for name in chosen.needs if find(name) is None]
    if missing:
        return Result(chosen.name, SKIPPED, [f"needs {name}" for name in missing])
    folder = Path(tempfile.mkdtemp(prefix=f"stress-{chosen.name}-"))
    try:
        with Run(seconds, builder, folder, rate_hz=RATE_HZ, seed=seed) as run:
            try:
                chosen.run(run)
            except AssertionError as error:
                run.findings.append(str(error) or traceback.format_exc(limit=-2))
            except Exception:
                run.findings.append(traceback.format_exc(limit=-4))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return Result(
        chosen.name,
        FINDING if run.findings else CLEAN,
        run.findings,
        run.facts,
        run.tally,
        seconds,
        time.monotonic() - began,
        seed,
        at=time.strftime("%F %T"),
    )


class _Shift:
    """Scenarios handed out to workers, and their results taken in."""

    def __init__(self, options: argparse.Namespace, builder: Builder) -> None:
        self._options = options
        self._builder = builder
        self._lock = threading.Lock()
        self._chosen = _chosen(options.names)
        self._handed_out = 0
        self._is_asked_to_end = False
        self._commit = _commit()
        self.results = read_results(options.results) if options.until else []

    def _next(self) -> tuple[Scenario, int] | None:
        """The next scenario and its seed; None when all is done."""
        with self._lock:
            number = self._handed_out
            if self._is_asked_to_end:
                return None
            if self._options.until:
                if sampled_s(self.results) >= self._options.until:
                    return None
            elif number >= len(self._chosen) * self._options.rounds:
                return None
            self._handed_out += 1
            return self._chosen[number % len(self._chosen)], self._options.seed + number

    def end_soon(self, *_: object) -> None:
        """Has no more scenarios begun; those under way go on to their end."""
        self._is_asked_to_end = True

    def work(self) -> None:
        """Run scenarios until none is left."""
        while (order := self._next()) is not None:
            result = run_one(order[0], self._options.seconds, self._builder, order[1])
            result.commit = self._commit
            with self._lock:
                self.results.append(result)
                with self._options.results.open("a") as file:
                    file.write(json.dumps(result.as_json()) + "\n")
                print(report.progress(result), flush=True)


def main() -> int:
    """Run what the command line asks for. Exit code 1 if there were findings."""
    options = _parse()
    if not options.until:
        options.results.unlink(missing_ok=True)
    options.results.parent.mkdir(parents=True, exist_ok=True)
    shift = _Shift(options, Builder())
    signal.signal(signal.SIGTERM, shift.end_soon)
    workers = [threading.Thread(target=shift.work) for _ in range(options.jobs)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    print(report.table(shift.results))
    return int(any(result.verdict == FINDING for result in shift.results))


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make stress", description="Stress flametap's targets.")
    parser.add_argument("names", nargs="*", metavar="SCENARIO", help="patterns; all when left out")
    parser.add_argument("--seconds", type=float, default=5.0, help="each recording lasts")
    parser.add_argument("--rounds", type=int, default=1, help="how often each scenario runs")
    parser.add_argument(
        "--until",
        type=float,
        metavar="SECONDS",
        help="repeat until targets were sampled for so long in total, with what RESULTS holds",
    )
    parser.add_argument("--jobs", type=int, default=2, help="scenarios at a time")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="of random moments")
    parser.add_argument("--results", type=Path, default=Path("build/stress.jsonl"))
    return parser.parse_args()


def _chosen(patterns: list[str]) -> list[Scenario]:
    wanted = [
        scenario
        for name, scenario in catalogue.SCENARIOS.items()
        if not patterns or any(fnmatch.fnmatch(name, pattern) for pattern in patterns)
    ]
    if not wanted:
        sys.exit(f"no such scenario; there are: {' '.join(catalogue.SCENARIOS)}")
    return wanted


def _commit() -> str:
    """The commit under test, with a + if files differ from it."""
    git = ["git", "describe", "--always", "--dirty=+"]
    done = subprocess.run(git, capture_output=True, text=True, check=False)
    return done.stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
