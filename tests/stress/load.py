"""What keeps targets busy, so that scenarios of several modules can use it."""

from __future__ import annotations

import re
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from harness import Run

READY_S = 60.0


def free_port() -> int:
    """A TCP port nobody uses."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def can_connect(port: int) -> bool:
    """True if something listens on a local port."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@contextmanager
def looping(call: Callable[[], None]) -> Iterator[None]:
    """Call something again and again while the block runs, and end with a whole call.

    Raises:
        Exception: whatever the call raised; then it was the last one.
    """
    over = threading.Event()
    failure: list[BaseException] = []

    def loop() -> None:
        try:
            while not over.is_set():
                call()
        except BaseException as error:
            failure.append(error)

    thread = threading.Thread(target=loop)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
    if failure:
        raise failure[0]


@contextmanager
def under_wrk(run: Run, port: int) -> Iterator[list[int]]:
    """Requests over 8 connections while the block runs; each error is a finding.

    The list grows by the number of answers of each round.
    """
    counts: list[int] = []

    def load() -> None:
        # A frozen server may take its time: that is no error. Nor is a round without an answer.
        command = ["wrk", "-t1", "-c8", "-d1s", "--timeout", "30s", f"http://127.0.0.1:{port}/"]
        wrk = subprocess.run(command, capture_output=True, text=True, check=False)
        for trouble in ("Socket errors", "Non-2xx", "unable"):
            run.expect(trouble not in wrk.stdout + wrk.stderr, f"wrk: {wrk}")
        found = re.search(r"(\d+) requests in", wrk.stdout)
        counts.append(int(found[1]) if found else 0)

    with looping(load):
        yield counts
    run.expect(sum(counts) > 0, f"not one request was answered, in {len(counts)} rounds")
