"""Run flametap's symboliser alone: names for addresses read from stdin.

    python bench/symbolize.py CACHE-FOLDER < cases.json > result.json

``cases.json`` is a list of [path, build-id, addresses]. All addresses are requested at once, the
worst case at the start of a recording. The result contains the times when all addresses had their
first and their final name, CPU time, and peak memory of this process and of its worker.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from pathlib import Path

from flametap.model import FrameKind, Module, RawFrame
from flametap.recording.names.table import SymbolTable
from flametap.symbols.symbolizer import Symbolizer

TIMEOUT_S = 300.0


def main() -> None:
    cases = json.load(sys.stdin)
    modules = [
        Module(number, path, 0, 0, 1 << 40, build_id)
        for number, (path, build_id, _) in enumerate(cases, 1)
    ]
    asked = [
        RawFrame(number, addr) for number, (_, _, addrs) in enumerate(cases, 1) for addr in addrs
    ]
    table = SymbolTable()
    before = _cpu_s(resource.RUSAGE_SELF)
    started = time.monotonic()
    symbolizer = Symbolizer(table, None, cache_dir=Path(sys.argv[1]))
    for module in modules:
        symbolizer.add_module(module)
    symbolizer.submit_many(enumerate(asked))
    unnamed = list(range(len(asked)))
    while unnamed and time.monotonic() - started < TIMEOUT_S:
        time.sleep(0.01)
        # Checks addresses one by one, from where the last check ended: checks cost CPU time, too.
        while unnamed and table.named(unnamed[-1]):
            unnamed.pop()
    first_names_s = time.monotonic() - started
    done = symbolizer.wait_idle(TIMEOUT_S)
    took_s = time.monotonic() - started
    cpu_s = _cpu_s(resource.RUSAGE_SELF) - before
    frames = [table.frames(i) for i in range(len(asked))]
    symbolizer.close()
    result = {
        "done": done,
        "first_names_s": first_names_s,
        "took_s": took_s,
        "cpu_s": cpu_s,
        "worker_cpu_s": _cpu_s(resource.RUSAGE_CHILDREN),
        "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10,
        "worker_peak_bytes": resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss << 10,
        "named": sum(f[0].function.kind is not FrameKind.UNKNOWN for f in frames),
        "with_line": sum(any(frame.line for frame in f) for f in frames),
    }
    json.dump(result, sys.stdout)


def _cpu_s(who: int) -> float:
    used = resource.getrusage(who)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    main()
