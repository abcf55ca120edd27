"""Record a process and serve the page, in a process of its own, and print figures on request.

    python bench/livehost.py PID RATE_HZ

Prints the page's address, and one line of JSON for every line of input: the CPU time of this
process (``cpu_ns``), that of the threads that record (``capture_ns``: all that there were before
the server began), and the state of the recording.
"""

from __future__ import annotations

import json
import os
import secrets
import sys
import threading
import time
from pathlib import Path
from typing import Any

from flametap.capture.capture_options import CaptureOptions
from flametap.capture.live import Capture
from flametap.linux import heaps
from flametap.web.server import serve

SETTLE_S = 3.0  # until the threads that record have begun


def thread_ns(tid: int) -> int:
    """Return the CPU time of a thread of this process; 0 if it has ended."""
    try:
        return int(Path(f"/proc/self/task/{tid}/schedstat").read_text().split()[0])
    except OSError:
        return 0


def main() -> None:
    pid, rate_hz = sys.argv[1:]
    heaps.keep_small()  # as the command line does
    capture = Capture(int(pid), CaptureOptions(rate_hz=float(rate_hz), budget_ppm=0))
    try:
        capture.start()
        time.sleep(SETTLE_S)
        mine = threading.get_native_id()
        recording = [int(each) for each in os.listdir("/proc/self/task") if int(each) != mine]
        source: Any = capture
        server = serve(source, "127.0.0.1", 0, secrets.token_urlsafe(24))
        print(server.url, flush=True)
        for _ in sys.stdin:
            status = capture.status()
            figures = {
                "cpu_ns": time.process_time_ns(),
                "capture_ns": sum(map(thread_ns, recording)),
                "state": status.state,
                "samples": status.samples,
                "notes": status.notes,
            }
            print(json.dumps(figures), flush=True)
        server.close()
    finally:
        capture.close()


if __name__ == "__main__":
    main()
