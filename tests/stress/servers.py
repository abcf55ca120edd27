"""Servers under load. The load checks every answer; the state they end in is the one it asked for."""

from __future__ import annotations

import re
import socket
import subprocess
import threading

from harness import Run, scenario
from running import Target, wait_until


def free_port() -> int:
    """A TCP port nobody uses."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@scenario("redis")
def redis(run: Run) -> None:
    """redis-server under redis-benchmark; it has to count as far as the benchmark does."""
    path = run.folder / "redis.sock"
    server = run.start(
        ["redis-server", "--port", "0", "--unixsocket", path, "--save", "", "--dir", run.folder]
    )
    wait_until(lambda: "ready to accept" in "".join(server.lines), "redis to be ready", 20)
    over, asked = threading.Event(), 0
    client = ["redis-cli", "-s", path]

    def load() -> None:
        nonlocal asked
        while not over.is_set():
            benchmark = [
                "redis-benchmark",
                "-s",
                path,
                "-q",
                "-t",
                "incr",
                "-c",
                "8",
                "-n",
                "20000",
            ]
            done = subprocess.run(benchmark, capture_output=True, text=True, check=False)
            run.expect(done.returncode == 0 and "Error" not in done.stdout, f"load: {done}")
            asked += 20000

    with run.unharmed(server.pid, own_threads="jemalloc_bg_thd"):
        loader = threading.Thread(target=load)
        loader.start()
        try:
            run.collect(run.begin(server.pid))
        finally:
            over.set()
            loader.join()
    got = subprocess.run([*client, "get", "counter:__rand_int__"], capture_output=True, text=True)
    run.expect(int(got.stdout or 0) == asked, f"counted to {got.stdout!r} instead of {asked}")
    subprocess.run([*client, "shutdown", "nosave"], capture_output=True, check=False)
    wait_until(lambda: not server.alive, "redis to end")
    run.expect(server.exit_code == 0, f"redis exits with {server.exit_code}")


def check_wrk(run: Run, wrk: Target) -> int:
    """Waits for wrk's end; each error it reports is a finding. Returns how many requests it made."""
    wait_until(lambda: not wrk.alive, "wrk to end", run.seconds + 60)
    report = "\n".join(wrk.lines)
    for trouble in ("Socket errors", "Non-2xx"):
        run.expect(trouble not in report, report)
    found = re.search(r"(\d+) requests in", report)
    run.expect(found is not None and int(found[1]) > 0, f"wrk: {report} {wrk.errors}")
    return int(found[1]) if found else 0
