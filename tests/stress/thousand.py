"""Many attaches to servers at work: ``round(20 * seconds)`` of them, 1 000 at ``SECONDS=50``.

No request fails or is answered wrongly, none takes longer than without us, and nothing is left.
"""

from __future__ import annotations

import contextlib
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from campaign import Campaign, answers_of, asking, nothing_mapped_more
from databases import Cluster, end_redis, shut_down, start_redis
from harness import Run, scenario
from load import READY_S, can_connect, free_port
from running import Target, wait_until
from targetbuild import SOURCES
from webservers import end, end_nginx, start_nginx

WARM_S = 2.0
GET = "GET / HTTP/1.1\r\nHost: here\r\n\r\n"


def _attaches(run: Run) -> int:
    return round(20 * run.seconds)


def _attach(
    run: Run,
    pid: int,
    address: str | int,
    request: str = GET,
    *,
    rate: int,
    is_kept: bool = True,
    is_steady: bool = True,
    has_jit: bool = False,
    own_threads: str = "",
) -> int:
    """Attach to a process of a server; returns how many answers came in all."""
    attaches = _attaches(run)
    with asking(run, address, request, rate, is_kept=is_kept) as (_, warm):
        time.sleep(WARM_S)
    campaign = Campaign(run, attaches)
    with (
        nothing_mapped_more(run, pid, attaches, is_steady=is_steady),
        run.unharmed(
            pid,
            has_jit=has_jit,
            own_threads=own_threads,
            ignore=lambda line: "socket:" in line,  # connections that end in their own time
        ),
        asking(run, address, request, rate, is_kept=is_kept) as (log, counts),
    ):
        campaign.alternate(pid)
    campaign.judge(answers_of(log))
    return sum(warm + counts)


@scenario("nginx")
def thousand_nginx(run: Run) -> None:
    """nginx: its worker, again and again."""
    port = free_port()
    master, worker = start_nginx(run, port, "keepalive_requests 1000000000;")
    _attach(run, worker, port, rate=2000)
    end_nginx(run, master, worker)


@scenario("redis")
def thousand_redis(run: Run) -> None:
    """redis-server: each request counts, and works a little in Lua."""
    server, path = start_redis(run)
    script = "redis.call('incr','n') local s=0 for i=1,10000 do s=s+i*i%7 end return s"
    request = f'EVAL "{script}" 0\r\n'
    asked = _attach(run, server.pid, path, request, rate=300, own_threads="jemalloc_bg_thd")
    end_redis(run, server, path, "n", asked)


def _serve(run: Run, server: Target, *, rate: int, own_threads: str, has_jit: bool) -> None:
    asked = _attach(
        run,
        server.pid,
        server.facts["port"],
        rate=rate,
        is_steady=False,
        has_jit=has_jit,
        own_threads=own_threads,
    )
    report = server.finish()
    run.expect(report == [f"served {asked}"], f"{report}, but {asked} answers arrived")
    run.expect(not server.errors, f"it complains: {server.errors}")


@scenario("go")
def thousand_go(run: Run) -> None:
    """A static server in Go."""
    server = run.start([run.go_program("serve")], announces=True)
    _serve(run, server, rate=1000, own_threads="serve", has_jit=False)


@scenario("node")
def thousand_node(run: Run) -> None:
    """node: HTTP, zlib in libuv's pool, a timer every millisecond."""
    server = run.start(["node", SOURCES / "serve.js"], announces=True)
    _serve(run, server, rate=200, own_threads="", has_jit=True)


@scenario("java")
def thousand_java(run: Run) -> None:
    """The JVM: its HTTP server, garbage collection and compilers at work."""
    options = ["-Xmx64m", "-Dsun.net.httpserver.nodelay=true", "-cp", str(run.java_class("Serve"))]
    server = run.start(["java", *options, "Serve"], announces=True)
    threads = r"(GC Thread|G1|C1 Comp|C2 Comp|VM |pool-|HTTP-).*"
    _serve(run, server, rate=500, own_threads=threads, has_jit=True)


APPLICATION = """
def application(environ, start_response):
    body = (str(sum(i * i for i in range(3000))) * 20).encode()
    start_response("200 OK", [("Content-Length", str(len(body)))])
    return [body]
"""


def _gunicorn(run: Run, *options: str, is_kept: bool) -> None:
    """Attach to one of the two workers of a gunicorn."""
    (run.folder / "application.py").write_text(APPLICATION)
    port = free_port()
    command = [run.capability("gunicorn"), "-w", "2", "-b", f"127.0.0.1:{port}", *options]
    master = run.start([*command, "application"], cwd=run.folder)
    wait_until(lambda: not master.alive or can_connect(port), "gunicorn to listen", READY_S)
    children = Path(f"/proc/{master.pid}/task/{master.pid}/children")
    wait_until(lambda: not master.alive or len(_pids(children)) == 2, "two workers", READY_S)
    assert master.alive, master.errors
    workers = _pids(children)
    _attach(
        run,
        workers[0],
        port,
        rate=100,
        is_kept=is_kept,
        is_steady=not is_kept,  # its pool starts a thread when it first needs that many
        own_threads="gunicorn.*|Thread.*",
    )
    run.expect(_pids(children) == workers, f"the workers are {_pids(children)}, were {workers}")
    end(run, master, signal.SIGTERM)
    trouble = [line for line in master.errors if "[INFO]" not in line]
    run.expect(not trouble, f"it complains: {trouble}")


def _pids(children: Path) -> list[int]:
    return list(map(int, children.read_text().split()))


@scenario("gunicorn")
def thousand_gunicorn_sync(run: Run) -> None:
    """gunicorn: a worker that takes one connection after another."""
    _gunicorn(run, is_kept=False)


@scenario("gunicorn")
def thousand_gunicorn_threads(run: Run) -> None:
    """gunicorn: a worker with threads."""
    _gunicorn(run, "-k", "gthread", "--threads", "4", is_kept=True)


@contextlib.contextmanager
def _pgbench(run: Run, cluster: Cluster) -> Iterator[Target]:
    """One connection's transactions at a steady rate while the block runs, each one logged."""
    # The log lies in its working directory, which its user can write to.
    options = ["-n", "-c", "1", "-R", "200", "-T", "100000", "-l", "--log-prefix=pgbench"]
    client = run.start(cluster.command("pgbench", *options, "bench"), cwd=cluster.folder)
    yield client
    # A transaction that is cancelled ends it in order: with its whole log.
    cancel = "select pg_cancel_backend(pid) from pg_stat_activity where application_name='pgbench'"
    wait_until(lambda: not cluster.sql(cancel) and not client.alive, "pgbench to end", READY_S)
    errors = [line for line in client.errors if "ERROR" in line]
    run.expect(len(errors) == 1 and "canceling" in errors[0], f"pgbench: {client.errors}")


@scenario("postgres", "setpriv")
def thousand_postgres(run: Run) -> None:
    """PostgreSQL: pgbench's backend, then the checkpointer and the postmaster, more seldom."""
    cluster = Cluster(run)
    cluster.client("pgbench", "-i", "-q", "-s", "1", "bench")
    processes = "select pid from pg_stat_activity where "
    campaign, attaches = Campaign(run, _attaches(run)), _attaches(run)
    others = [int(cluster.sql(f"{processes} backend_type='checkpointer'")), cluster.server.pid]
    with _pgbench(run, cluster):
        time.sleep(WARM_S)
        backend = int(cluster.sql(f"{processes} application_name='pgbench'"))
        with (
            nothing_mapped_more(run, backend, attaches, is_steady=True),
            run.unharmed(backend, ignore=lambda line: "/data/" in line),  # its tables
        ):
            campaign.alternate(backend)
        for pid in others:
            with (
                nothing_mapped_more(run, pid, attaches // 10, is_steady=True),
                run.unharmed(pid, ignore=lambda line: "/data/" in line),
            ):
                campaign.attach(pid, max(1, attaches // 10))
    log = np.loadtxt(next(cluster.folder.glob("pgbench.*")), usecols=(2, 4, 5), dtype=np.int64)
    ended_us = log[:, 1] * 10**6 + log[:, 2] - (time.time_ns() - time.monotonic_ns()) // 1000
    campaign.judge(np.stack([ended_us - log[:, 0], log[:, 0]], axis=1) * 1000)
    sums = "select count(*), sum(delta) from pgbench_history"
    count, total = cluster.sql(sums).split("|")
    run.expect(int(count) == len(log), f"{count} transactions, {len(log)} were answered")
    for table in ("account", "teller", "branche"):
        balance = cluster.sql(f"select sum({table[0]}balance) from pgbench_{table}s")
        run.expect(balance == total, f"the {table}s hold {balance}, not {total}")
    shut_down(run, cluster.server)
