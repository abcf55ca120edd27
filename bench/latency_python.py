"""Measure slowdown and latency of a request loop in Python under profilers.

    python bench/latency_python.py [--quick] [--minutes 4] [--threads 2 16 159] [--rates 100 1000]

See ``requestloop.py``.
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


def measure(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    def server(path: Path, n: int) -> programs.Program:
        return programs.python_program("server", path, str(n))

    return requestloop.measure(options, folder, server, (*peers.FOR_PYTHON, peers.PY_SPY_DUMP))


def tables(data: Data) -> list[Table]:
    return requestloop.tables(data, "Request loop in Python")


BENCH = Bench(
    "latency_python",
    "slowdown and p99 latency of a request loop in Python: flametap, perf, py-spy, austin, gdb",
    requestloop.arguments,
    measure,
    tables,
    minutes=4,
)

if __name__ == "__main__":
    run(BENCH)
