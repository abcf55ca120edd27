"""One recording in a process of its own, as a user's would be: attach, sample, detach, report.

Run as ``python recorder.py PID SECONDS RATE_HZ RESULT``. Prints ``recording`` once sampling has
begun; SIGTERM ends it early, as Ctrl-C would; SIGUSR1 has it print the stacks of its threads.
RESULT gets one JSON object, also when the attach was refused (then ``error`` says why).
``harness.Outcome`` documents its fields.
"""

from __future__ import annotations

import faulthandler
import json
import signal
import sys
import time
from pathlib import Path
from typing import Any

from flametap.capture.capture_options import CaptureOptions
from flametap.capture.live import Capture
from flametap.errors import FlametapError
from flametap.model import Verdict

POLL_S = 0.02


class _Asked:
    """Becomes true with the first SIGTERM."""

    def __init__(self) -> None:
        self.now = False
        signal.signal(signal.SIGTERM, self._note)

    def _note(self, *_: object) -> None:
        self.now = True


def record(pid: int, seconds: float, rate_hz: float, asked: _Asked) -> dict[str, Any]:
    """Record, and return what ``harness.Outcome`` is made of."""
    capture = Capture(pid, CaptureOptions(rate_hz=rate_hz, budget_ppm=0))
    began = time.monotonic()
    try:
        try:
            capture.start()
        except FlametapError as error:
            return {"error": f"{type(error).__name__}: {error.message}"}
        attach_s = time.monotonic() - began
        print("recording", flush=True)
        until = time.monotonic() + seconds
        while not asked.now and time.monotonic() < until and not capture.wait(POLL_S):
            pass
        stop_began = time.monotonic()
        capture.stop()
        return {**_seen(capture), "attach_s": attach_s, "stop_s": time.monotonic() - stop_began}
    finally:
        capture.close()


def _seen(capture: Capture) -> dict[str, Any]:
    ring = capture.session.ring
    assert ring is not None
    status = capture.status()
    weights = status.verdict_cpu_ns
    return {
        "error": capture.error.message if capture.error else "",
        "reason": status.reason,
        "notes": status.notes,
        "duration_s": status.duration_ns / 1e9,
        "until_s": capture.profile.now_ns / 1e9,
        "samples": status.samples,
        "threads": len(capture.profile.thread_infos()),
        "counters": status.counters,
        "handler_histogram": list(ring.handler_histogram()),
        "cpu_s": sum(weights.values()) / 1e9,
        "complete_cpu_s": sum(weights.get(v.name, 0) for v in Verdict if v.is_complete) / 1e9,
        "verdict_cpu_s": {name: ns / 1e9 for name, ns in weights.items() if ns},
        "verdict_modules": status.verdict_modules,
    }


def main() -> None:
    """See the module."""
    faulthandler.register(signal.SIGUSR1)
    pid, seconds, rate_hz, result = sys.argv[1:]
    seen = record(int(pid), float(seconds), float(rate_hz), _Asked())
    Path(result).write_text(json.dumps(seen))


if __name__ == "__main__":
    main()
