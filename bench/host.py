"""Run flametap in a process of its own, as the command line does, and print its figures on request.

    python bench/host.py PID RATE_HZ [FOLDED [BUDGET_PPM]]

Prints "ready" when it samples, and one line of JSON for every line of input, see ``report``. At the
end of input it stops, and writes the folded stacks (CPU time, microseconds) to FOLDED. The governor
is off (``--budget 0``), so that the rate stays the requested one, unless BUDGET_PPM gives the
budget in millionths of a core.
"""

from __future__ import annotations

import json
import resource
import sys
import time

import numpy as np

from flametap.analysis.views import views_of
from flametap.capture.capture_options import CaptureOptions
from flametap.capture.live import Capture
from flametap.export import folded
from flametap.export.request import ExportRequest
from flametap.model import Clock, ManagedVerdict, Verdict
from flametap.tree.selection import Selection

SYMBOLS_TIMEOUT_S = 30.0


def report(capture: Capture) -> str:
    """Return the status as JSON: counters of the agent, handler times, memory of this process."""
    status = capture.status()
    return json.dumps(
        {
            "counters": status.counters,
            "handler_p50_ns": status.handler_p50_ns,
            "handler_p99_ns": status.handler_p99_ns,
            "samples": status.samples,
            "duration_ns": status.duration_ns,
            "state": status.state,
            "notes": status.notes,
            "peak_rss_kb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss,
        }
    )


def last_report(capture: Capture) -> str:
    """Return ``report`` with slower figures: number of different stacks, number of stacks taken of
    running threads, the share of CPU time whose stack is in doubt, and the time of a view."""
    began = time.thread_time()
    views_of(capture.recording).tree(Selection(Clock.CPU))
    view_s = time.thread_time() - began
    leaves = capture.profile.leaf_weights(Clock.CPU).node
    cpu_samples = int(capture.profile.leaf_samples(Clock.CPU).total)
    more = {
        "stacks": len(np.unique(leaves)),
        "cpu_samples": cpu_samples,
        "view_s": view_s,
        "errors_percent": errors_percent(capture),
    }
    return json.dumps(json.loads(report(capture)) | more)


def errors_percent(capture: Capture) -> float:
    """Return the share of CPU time whose native stack did not reach its root, or whose Python
    frames are in doubt; the larger of both, in percent."""
    profile = capture.profile
    total_ns = max(1, profile.total_ns(Clock.CPU))
    verdicts = profile.verdicts()
    native = verdicts.native.items()
    native_ns = sum(ns for name, ns in native if not Verdict[name].root_reached)
    managed = verdicts.managed.items()
    managed_ns = sum(ns for name, ns in managed if ManagedVerdict[name] >= ManagedVerdict.TORN)
    return 100 * max(native_ns, managed_ns) / total_ns


def main() -> None:
    pid, rate_hz, *output = sys.argv[1:]
    budget_ppm = int(output[1]) if len(output) > 1 else 0
    capture = Capture(int(pid), CaptureOptions(rate_hz=float(rate_hz), budget_ppm=budget_ppm))
    try:
        began = time.monotonic()
        capture.start()
        print(f"ready {time.monotonic() - began:.3f}", flush=True)
        for _ in sys.stdin:
            print(report(capture), flush=True)
        capture.stop()
        print(last_report(capture), flush=True)
        if output:
            capture.finish_symbols(SYMBOLS_TIMEOUT_S)
            with open(output[0], "wb") as file:
                folded.write(ExportRequest(capture.recording), file)
    finally:
        capture.close()


if __name__ == "__main__":
    main()
