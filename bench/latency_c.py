"""Measure slowdown and latency of a request loop in C under profilers.

    python bench/latency_c.py [--quick] [--minutes 4] [--threads 2 16 159] [--rates 100 1000]

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
    program = programs.build("server", folder)

    def server(path: Path, n: int) -> programs.Program:
        return programs.Program([program, path, str(n)])

    return requestloop.measure(options, folder, server, (peers.FLAMETAP_IN_BUDGET, *peers.FOR_ALL))


def tables(data: Data) -> list[Table]:
    return requestloop.tables(data, "Request loop in C")


BENCH = Bench(
    "latency_c",
    "slowdown and p99 latency of a request loop in C: flametap, perf, gdb",
    requestloop.arguments,
    measure,
    tables,
    minutes=4,
)

if __name__ == "__main__":
    run(BENCH)
