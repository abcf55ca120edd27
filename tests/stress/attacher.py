"""Attaches to a process again and again, all in one process: so that one takes some tens of ms.

Reads lines ``PID COUNT``; answers each with one JSON object when so many attaches are over. An
attach is: in by the direct way, sample for ``SAMPLED_S``, stop, out. ``Attaches`` in
``thousand.py`` documents the fields.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

from flametap.errors import FlametapError
from flametap.inject.direct.injector import DirectInjector
from flametap.inject.link import ring_file
from flametap.inject.link.session import Session
from flametap.wire.ring import Ring

RATE_HZ = 1000.0
SAMPLED_S = 0.04
COUNTERS = (
    "signals_handled",
    "parked_reads",
    "eintr_unrepairable",
    "signals_late",
    "signals_failed",
)


def attach(pid: int, seen: dict[str, Any]) -> None:
    """Attach once, and add what it saw.

    Raises:
        FlametapError: it failed.
    """
    began = time.perf_counter()
    injector = DirectInjector(pid)
    session = Session(pid, injector)
    try:
        memory = ring_file.mapped(session.attach(RATE_HZ))
        session.start()
        seen["attach_ms"].append(1e3 * (time.perf_counter() - began))
        seen["stopped_us"].append(1e6 * injector.stopped_s)
        time.sleep(SAMPLED_S)
        seen["notes"] += [note for note in [session.stop() or session.end_reason] if note]
        ring = Ring(memory)
        for name in COUNTERS:
            seen[name] += ring.counters()[name]
        ring.close()
    finally:
        began = time.perf_counter()
        session.close()
        seen["detach_ms"].append(1e3 * (time.perf_counter() - began))


def main() -> None:
    """See the module."""
    print("ready", flush=True)
    for line in sys.stdin:
        pid, count = map(int, line.split())
        seen: dict[str, Any] = {"began_ns": time.monotonic_ns(), "errors": []}
        seen.update(attach_ms=[], stopped_us=[], detach_ms=[], notes=[])
        seen.update(dict.fromkeys(COUNTERS, 0))
        for _ in range(count):
            try:
                attach(pid, seen)
            except FlametapError as error:
                seen["errors"].append(f"{type(error).__name__}: {error.message}")
        seen["ended_ns"] = time.monotonic_ns()
        seen["descriptors"] = len(os.listdir("/proc/self/fd"))
        seen["threads"] = len(os.listdir("/proc/self/task"))
        print(json.dumps(seen), flush=True)


if __name__ == "__main__":
    main()
