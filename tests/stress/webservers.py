"""Web servers under load: event loops, pools of threads, a thread for each connection, JITs."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from harness import Run, scenario
from load import READY_S, can_connect, free_port, under_wrk
from nginx import NGINX_CONF
from running import Target, wait_until
from targetbuild import SOURCES


def start_nginx(run: Run, port: int, more: str = "") -> tuple[Target, int]:
    """An nginx and its worker, which waits for connections. ``more``: see ``NGINX_CONF``."""
    (run.folder / "www").mkdir()
    (run.folder / "www" / "index.html").write_text("hello\n" * 100)
    conf = run.folder / "nginx.conf"
    conf.write_text(NGINX_CONF.format(folder=run.folder, port=port, more=more))
    master = run.start([run.capability("nginx"), "-p", run.folder, "-c", conf])
    children = Path(f"/proc/{master.pid}/task/{master.pid}/children")
    wait_until(lambda: not master.alive or children.read_text().split(), "nginx's worker", READY_S)
    assert master.alive, master.errors
    worker = int(children.read_text().split()[0])
    waits = Path(f"/proc/{worker}/syscall")
    wait_until(lambda: waits.read_text().startswith("232 "), "the worker in epoll_wait", READY_S)
    return master, worker


def end_nginx(run: Run, master: Target, worker: int) -> None:
    """Look whether the worker is the one it was, and end both."""
    children = Path(f"/proc/{master.pid}/task/{master.pid}/children")
    run.expect(children.read_text().split() == [str(worker)], "the worker is another one")
    end(run, master, signal.SIGQUIT)
    run.expect("[alert]" not in "".join(master.errors), f"it complains: {master.errors}")


@scenario("nginx", "wrk")
def nginx(run: Run) -> None:
    """nginx under wrk: its worker and its master are recorded at the same time."""
    port = free_port()
    master, worker = start_nginx(run, port)
    with run.unharmed(master.pid), run.unharmed(worker), under_wrk(run, port):
        both = [run.begin(pid) for pid in (worker, master.pid)]
        for recording in both:
            run.collect(recording)
    end_nginx(run, master, worker)


@scenario("caddy", "wrk")
def caddy(run: Run) -> None:
    """A Go server: its own stacks, and our signal is the one of its scheduler."""
    port = free_port()
    (run.folder / "index.html").write_text("hello\n" * 100)
    server = run.start(
        ["caddy", "file-server", "--listen", f"127.0.0.1:{port}", "--root", run.folder]
    )
    wait_until(lambda: not server.alive or can_connect(port), "caddy to listen", READY_S)
    assert server.alive, server.errors
    with run.unharmed(server.pid, own_threads="caddy"), under_wrk(run, port):
        run.collect(run.begin(server.pid))
    end(run, server, signal.SIGTERM)


def end(run: Run, server: Target, how: signal.Signals) -> None:
    """End a server by a signal."""
    os.kill(server.pid, how)
    wait_until(lambda: not server.alive, f"{server.name} to end", READY_S)
    run.expect(server.exit_code == 0, f"exit code {server.exit_code}: {server.errors}")


@scenario("node", "wrk")
def node(run: Run) -> None:
    """node: HTTP, zlib in libuv's pool, a timer every millisecond."""
    _serve(run, run.start(["node", SOURCES / "serve.js"], announces=True), has_jit=True)


@scenario("wrk")
def python(run: Run) -> None:
    """CPython: http.server with a thread for each connection."""
    target = run.start([sys.executable, SOURCES / "serve.py"], announces=True)
    _serve(run, target, own_threads=r"python.*|Thread-.*|runner.*|pytest.*")


@scenario("java", "wrk")
def java(run: Run) -> None:
    """The JVM: its HTTP server, garbage collection and compilers at work."""
    classes = run.java_class("Serve")
    target = run.start(["java", "-Xmx64m", "-cp", classes, "Serve"], announces=True)
    jvm_threads = r"(GC Thread|G1|C1 Comp|C2 Comp|VM |pool-|HTTP-).*"
    _serve(run, target, has_jit=True, own_threads=jvm_threads)


def _serve(run: Run, server: Target, *, has_jit: bool = False, own_threads: str = "") -> None:
    """Record an HTTP server of ``tests/targets`` under wrk; it counts what it has served."""
    port = server.facts["port"]
    # Pools are filled and classes loaded before the first receipt is taken. A virtual machine that
    # waits for its disk may need more than one round of wrk's.
    with under_wrk(run, port) as counts:
        wait_until(lambda: sum(counts) > 0, "the first answer", READY_S)
    with (
        run.unharmed(
            server.pid,
            has_jit=has_jit,
            own_threads=own_threads,
            ignore=lambda line: "socket:" in line,  # connections that end in their own time
        ),
        under_wrk(run, port) as counts,
    ):
        run.collect(run.begin(server.pid))
    report = server.finish()
    run.expect(
        len(report) == 1 and int(report[0].removeprefix("served ")) >= sum(counts),
        f"{report}, but {sum(counts)} answers arrived",
    )
    run.expect(not server.errors, f"it complains: {server.errors}")
