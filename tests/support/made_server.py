"""A recording of a made-up server, which grows: what the page is developed and tested against.

``python tests/support/made_server.py`` serves it, without a target. The recording is a real one: it
is fed batches, as an agent sends them. The stacks are random walks through a small call graph,
always the same for the same seed.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
import threading
import time
from collections.abc import Mapping, Sequence

import wire
from flametap.capture.limits import check_sampling
from flametap.model import ChildProcess, Status
from flametap.recording.revision import Revision
from flametap.wire import abi
from growing import Growing
from made_graph import THREADS
from made_layout import MadeCode
from made_stacks import START_NS, stacks
from made_status import made_status
from made_time import STEP_NS, Schedule

TOKEN = "secret-token"  # of servers under test
COMMAND = "/usr/bin/orderd --listen 0.0.0.0:8443 --workers 8"
PID = 41873


class MadeControls:
    """What the page may change while the server is recorded. See ``web.control_types.Controls``."""

    def __init__(self, changes: Revision) -> None:
        self._changes = changes
        self.state = "recording"
        self.reason = ""
        self.rate_hz, self.budget_percent = 100.0, 1.0
        self.started: list[ChildProcess] = []

    def set_paused(self, paused: bool) -> None:
        """See ``Controls``."""
        self.state = "paused" if paused else "recording"
        self._changes.step()

    def set_sampling(self, rate_hz: float, budget_percent: float) -> None:
        """See ``Controls``."""
        check_sampling(rate_hz, budget_percent)
        self.rate_hz, self.budget_percent = rate_hz, budget_percent
        self._changes.step()

    def children(self) -> list[ChildProcess]:
        """See ``Controls``."""
        return self.started


class MadeServer(Growing):
    """A recording of the server. ``advance`` lets time pass, ``running`` lets it pass by itself.

    Args:
        node_count: nodes of the tree when everything has appeared.
        seed: of the stacks.
        threads: their names.
        load: the share of the usual CPU time that they use; 0 for threads that only wait.
        names: other names for some functions.
        changes: see ``Schedule``.
        instructions: how many each function has at least.

    Attributes:
        controls: of its recorder.
        layout: where its functions lie.
        command: of the server.
        counters: what the agent counts, besides the usual.
    """

    def __init__(
        self,
        node_count: int = 5_000,
        seed: int = 7,
        *,
        threads: Sequence[str] = THREADS,
        load: float = 1.0,
        names: Mapping[str, str] | None = None,
        changes: Mapping[int, Mapping[str, float]] | None = None,
        instructions: int = 90,
    ) -> None:
        made = stacks(node_count, seed, tuple((names or {}).items()), instructions)
        super().__init__(self._told, MadeCode(made.layout))
        self.controls = MadeControls(self.recording.changes)
        self.layout = made.layout
        self.command = COMMAND
        self.counters: dict[str, int] = {}
        self._threads = threads
        self._lock = threading.Lock()
        self._schedule = Schedule(made, len(threads), load, changes)
        self.begin(made.traces, made.layout.frames)
        self.feed(START_NS, threads=self._thread_records())

    def advance(self, seconds: float) -> None:
        """Add time to the recording, unless it is paused, and wake the threads that wait for it."""
        steps = round(seconds * 1e9 / STEP_NS)
        if self.controls.state != "recording" or not steps:
            self.recording.changes.step()
            return
        with self._lock:
            while steps:
                part = self._schedule.fitting(steps)
                intervals = self._schedule.advance(part)
                self.feed(self._schedule.now_ns, intervals=intervals)
                steps -= part

    def end(self, reason: str = "the process exited") -> None:
        """The server is gone."""
        with self._lock:  # its end and its revision are one
            self.controls.state, self.controls.reason = "ended", reason
            records = self._thread_records(abi.THREAD_EXITED)
            self.feed(self._schedule.now_ns, threads=records)

    def running(self, stop: threading.Event, period_s: float = 0.1) -> threading.Thread:
        """Start a thread that advances in real time until ``stop`` is set."""

        def run() -> None:
            while not stop.wait(period_s):
                self.advance(period_s)

        thread = threading.Thread(target=run, name="made-server", daemon=True)
        thread.start()
        return thread

    def _thread_records(self, flags: int = 0) -> list[bytes]:
        return [
            wire.thread(at, PID - 1 + at, name, flags=flags, first_seen_ns=START_NS)
            for at, name in enumerate(self._threads, 1)
        ]

    def _told(self) -> Status:
        with self._lock:
            controls = self.controls
            told = made_status(self.profile, self.counters)
            return dataclasses.replace(
                told,
                pid=PID,
                command=self.command,
                program="orderd",
                state=controls.state,
                reason=controls.reason,
                rate_hz=controls.rate_hz,
                asked_rate_hz=controls.rate_hz,
                budget_ppm=round(controls.budget_percent * 10_000),
                revision=self.revision,
                is_final=controls.state == "ended",
            )


def main() -> None:
    """Serve a growing recording until Ctrl-C."""
    from flametap.web.server import serve

    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--nodes", type=int, default=20_000)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--token", default="demo")
    options = parser.parse_args()
    made = MadeServer(options.nodes)
    made.advance(1.0)
    stop = threading.Event()
    made.running(stop)
    server = serve(made.views, "127.0.0.1", options.port, options.token, controls=made.controls)
    print(server.url, flush=True)
    try:
        while True:
            time.sleep(1)
    except KeyboardInterrupt:
        stop.set()
        server.close()
        sys.exit(0)


if __name__ == "__main__":
    main()
