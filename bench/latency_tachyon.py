"""Measure slowdown and latency of a request loop in Python 3.15, which brings a profiler (Tachyon).

    python bench/latency_tachyon.py [--python python3.15] [--quick] [--threads 2] [--rates 100 1000]

Tachyon reads only processes of its own version, so the server runs under that Python, too. See
``requestloop.py``.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import peers
import programs
import requestloop
from benchmark import Bench, run
from reporting import Data, Table


def arguments(parser: argparse.ArgumentParser) -> None:
    requestloop.arguments(parser)
    parser.set_defaults(threads=[2, 16])
    parser.add_argument("--python", default="python3.15", help="its command")


def measure(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    def server(path: Path, n: int) -> programs.Program:
        return programs.python_program("server", path, str(n), python=options.python)

    tachyon = peers.tachyon(options.python)
    compared = (peers.FLAMETAP, peers.PY_SPY, peers.PY_SPY_NATIVE, tachyon)
    return requestloop.measure(options, folder, server, compared)


def tables(data: Data) -> list[Table]:
    return requestloop.tables(data, "Request loop in Python 3.15")


BENCH = Bench(
    "latency_tachyon",
    "the same in Python 3.15: flametap, py-spy, and Tachyon, Python's own profiler",
    arguments,
    measure,
    tables,
    minutes=4,
)

if __name__ == "__main__":
    run(BENCH)
