"""Servers under load. The load checks every answer, and the state the server ends in."""

from __future__ import annotations

import re
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from harness import Run, scenario
from running import Target, wait_until

READY_S = 30.0


def free_port() -> int:
    """A TCP port nobody uses."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def looping(call: Callable[[], None]) -> Iterator[None]:
    """Calls something again and again while the block runs, and ends with a whole call."""
    over = threading.Event()

    def loop() -> None:
        while not over.is_set():
            call()

    thread = threading.Thread(target=loop)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def check_wrk(run: Run, wrk: Target) -> int:
    """Waits for wrk's end; each error it reports is a finding. Returns the number of requests."""
    wait_until(lambda: not wrk.alive, "wrk to end", run.seconds + 60)
    report = "\n".join(wrk.lines)
    for trouble in ("Socket errors", "Non-2xx"):
        run.expect(trouble not in report, report)
    found = re.search(r"(\d+) requests in", report)
    run.expect(found is not None and int(found[1]) > 0, f"wrk: {report} {wrk.errors}")
    return int(found[1]) if found else 0


@scenario("redis")
def redis(run: Run) -> None:
    """redis-server under redis-benchmark; it has to count as far as the benchmark does."""
    path = str(run.folder / "redis.sock")
    server = run.start(
        ["redis-server", "--port", "0", "--unixsocket", path, "--save", "", "--dir", run.folder]
    )
    wait_until(lambda: "ready to accept" in "".join(server.lines), "redis to be ready", READY_S)
    asked = 0

    def load() -> None:
        nonlocal asked
        command = ["redis-benchmark", "-s", path, "-q", "-t", "incr", "-c", "8", "-n", "20000"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        run.expect(done.returncode == 0 and "Error" not in done.stdout, f"load: {done}")
        asked += 20000

    with run.unharmed(server.pid, own_threads="jemalloc_bg_thd"), looping(load):
        run.collect(run.begin(server.pid))
    get = ["redis-cli", "-s", path, "get", "counter:__rand_int__"]
    got = subprocess.run(get, capture_output=True, text=True, check=False).stdout
    run.expect(got.strip() == str(asked), f"counted to {got!r} instead of {asked}")
    subprocess.run(
        ["redis-cli", "-s", path, "shutdown", "nosave"], capture_output=True, check=False
    )
    wait_until(lambda: not server.alive, "redis to end", READY_S)
    run.expect(server.exit_code == 0, f"redis exits with {server.exit_code}")
