"""Serve the page of a made-up recording, in a process of its own.

    python bench/bighost.py INTERVALS TRACES THREADS FOLDER

The recording is made as that of bench/store.py, of stacks that share fewer callers: 10⁵ of them
make 10⁶ nodes. Writes it into FOLDER for other viewers: ``stacks.folded`` (a line for each stack),
``time.speedscope.json`` and ``time.firefox.json`` (in order of time). Then prints one line of JSON
with the page's address and the sizes, and ends with its input.
"""

from __future__ import annotations

import json
import secrets
import sys
from pathlib import Path

import numpy as np

from flametap.analysis.views import views_of
from flametap.export import firefox, folded, speedscope
from flametap.export.request import ExportRequest
from flametap.linux import heaps
from flametap.model import Clock, Module, Status, Verdict
from flametap.recording.names.table import SymbolTable
from flametap.recording.profile.store import Profile
from flametap.recording.recording import Recording
from flametap.tree.selection import EVERYTHING
from flametap.web.server import serve
from flametap.wire.events import Batch, ModuleUpdate, ThreadUpdate, Trace
from store import BATCH_ROWS, NO_ROWS, name_all, rows, stacks

TABLES_BYTES = 1 << 30  # twice what a recording may take: 10⁶ nodes do not fit
RENEWED = (2, 4, 6, 8, 10, 12, 14)


def ended(profile: Profile) -> Status:
    """Return the state of a recording that has ended."""
    return Status(
        pid=1,
        command="/usr/bin/server",
        state="ended",
        reason="the process exited",
        engine="cpu-timers",
        rate_hz=100.0,
        asked_rate_hz=100.0,
        effective_rate_hz=100.0,
        duration_ns=profile.duration_ns,
        revision=profile.revision,
        samples=profile.samples,
        verdict_cpu_ns=profile.verdicts().native,
        is_final=True,
    )


def recording(n_intervals: int, n_traces: int, n_threads: int) -> Recording:
    """Fill a profile as a recording does, with what it makes ahead of views."""
    profile = Profile(tables_bytes=TABLES_BYTES)
    table = SymbolTable(profile.locate)
    found = Recording(profile, table, lambda: ended(profile))
    module = ModuleUpdate(Module(1, "/usr/lib/libx.so", 0, 0, 1 << 40, ""), False)
    threads = [
        ThreadUpdate(i, i, f"worker {i}", 0, exited=False, hidden=False, signals_blocked=False)
        for i in range(1, n_threads + 1)
    ]
    profile.apply(Batch(0, 1, [module], threads, [], [], NO_ROWS))
    for trace_id, frames in enumerate(stacks(n_traces, RENEWED), 1):
        trace = Trace(trace_id, Verdict.COMPLETE, 0, frames)
        profile.apply(Batch(0, 1, [], [], [], [trace], NO_ROWS))
    name_all(profile, table)
    rng = np.random.default_rng(1)
    for batch in range(n_intervals // BATCH_ROWS):
        records = rows(rng, batch, n_traces, n_threads)
        profile.apply(Batch(batch, int(records["t0_ns"].max()), [], [], [], [], records))
        views_of(found).prepare()  # as the pump of a recording
    return found


def main() -> None:
    n_intervals, n_traces, n_threads = map(int, sys.argv[1:4])
    folder = Path(sys.argv[4])
    heaps.keep_small()  # as the command line does
    source = recording(n_intervals, n_traces, n_threads)
    request = ExportRequest(source)
    for name, write in (
        ("stacks.folded", folded.write),
        ("time.speedscope.json", speedscope.write),
        ("time.firefox.json", firefox.write),
    ):
        with (folder / name).open("wb") as file:
            write(request, file)
    source.views = None  # forgets the tree, which is new to the page
    views = views_of(source)
    server = serve(views, "127.0.0.1", 0, secrets.token_urlsafe(24))
    said = {
        "url": server.url,
        "samples": source.profile.samples,
        "nodes": len(views.tree(EVERYTHING).parent),
        "cpu_s": source.profile.total_ns(Clock.CPU) / 1e9,
    }
    print(json.dumps(said), flush=True)
    sys.stdin.read()
    server.close()


if __name__ == "__main__":
    main()
