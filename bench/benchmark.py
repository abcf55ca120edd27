"""Shared by all benches: the command line, the time limit, and writing the result.

A bench is a module with ``BENCH = Bench(...)``; ``run(BENCH)`` is its ``main``.
"""

from __future__ import annotations

import argparse
import datetime
import random
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import machine
import reporting
import usage

_Cell = TypeVar("_Cell")

# Errors of one peer or target: its cell of the table shows the error, the others are measured.
FAILURES = (RuntimeError, OSError, ValueError, subprocess.SubprocessError)


@dataclass(frozen=True)
class Bench:
    """One bench.

    Attributes:
        name: of its command, its result file and its place in README.md.
        what: one line on what it measures.
        arguments: adds its own options to the command line.
        measure: does the work in an empty folder; returns what goes into the JSON as ``data``.
        tables: the same data as tables.
        minutes: how long it takes; 0 if it has no time limit.
    """

    name: str
    what: str
    arguments: Callable[[argparse.ArgumentParser], None]
    measure: Callable[[argparse.Namespace, Path], dict[str, Any]]
    tables: Callable[[reporting.Data], Sequence[reporting.Table]]
    minutes: float = 0.0


def parser_for(bench: Bench) -> argparse.ArgumentParser:
    """Return the command line parser of one bench."""
    parser = argparse.ArgumentParser(prog=f"bench/{bench.name}", description=bench.what)
    parser.add_argument("--quick", action="store_true", help="some 30 s, to try it; writes nothing")
    if bench.minutes:
        text = "measure again and again for so long, all peers in turn (%(default)s)"
        parser.add_argument("--minutes", type=float, default=bench.minutes, help=text)
    parser.add_argument("--json", type=Path, help="write the result here and leave README.md alone")
    bench.arguments(parser)
    return parser


def run(bench: Bench, arguments: Sequence[str] | None = None) -> None:
    """Measure, print the tables, write results/NAME.json and README.md's tables."""
    arguments = sys.argv[1:] if arguments is None else arguments
    options = parser_for(bench).parse_args(arguments)
    if options.quick and bench.minutes:
        options.minutes = min(options.minutes, 0.5)
    load_before, began = usage.load_average(), time.monotonic()
    with tempfile.TemporaryDirectory(prefix="flametap-bench-") as folder:
        data = bench.measure(options, Path(folder))
    result = {
        "bench": bench.name,
        "made": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
        "command": shlex.join(["python", f"bench/{bench.name}.py", *arguments]),
        "took_s": round(time.monotonic() - began, 1),
        "load_average": [load_before, usage.load_average()],
        "machine": machine.facts(),
        "versions": machine.versions(),
        "data": data,
    }
    print(reporting.terminal(bench.tables(data)))
    print(f"\n{reporting.origin(result)}")
    if options.json or not options.quick:
        path = options.json or reporting.RESULTS / f"{bench.name}.json"
        reporting.save(path, result)
        print(f"written: {path}")
    if not options.json and not options.quick:
        import suite  # imported here: it imports all benches

        suite.render()


def interleaved(
    cells: Sequence[_Cell], minutes: float, minimum_rounds: int = 1, seed: int = 1
) -> Iterator[tuple[int, _Cell]]:
    """Yield (round, cell), all cells of a round in random order, until the time is over, so that
    other load on the machine affects all cells alike.

    The first ``minimum_rounds`` rounds are complete in any case.
    """
    rng = random.Random(seed)
    deadline = time.monotonic() + minutes * 60
    round_number = 0
    while round_number < minimum_rounds or time.monotonic() < deadline:
        order = list(cells)
        rng.shuffle(order)
        for cell in order:
            if round_number >= minimum_rounds and time.monotonic() > deadline:
                return
            yield round_number, cell
        round_number += 1


def say(text: str) -> None:
    """Print a line of progress to stderr."""
    print(text, file=sys.stderr, flush=True)
