"""Databases under load that can be counted: what was asked for has to be there at the end."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path

from harness import Run, scenario
from load import READY_S, looping
from running import Target, wait_until


def start_redis(run: Run) -> tuple[Target, str]:
    """A redis-server, and the path of its socket."""
    path = str(run.folder / "redis.sock")
    server = run.start(
        ["redis-server", "--port", "0", "--unixsocket", path, "--save", "", "--dir", run.folder]
    )
    wait_until(lambda: "ready to accept" in "".join(server.lines), "redis to be ready", READY_S)
    return server, path


@scenario("redis")
def redis(run: Run) -> None:
    """redis-server under redis-benchmark; it has to count as far as the benchmark does."""
    server, path = start_redis(run)
    asked = 0

    def load() -> None:
        nonlocal asked
        command = ["redis-benchmark", "-s", path, "-q", "-t", "incr", "-c", "8", "-n", "20000"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        run.expect(done.returncode == 0 and "Error" not in done.stdout, f"load: {done}")
        asked += 20000

    with run.unharmed(server.pid, own_threads="jemalloc_bg_thd"), looping(load):
        run.collect(run.begin(server.pid))
    end_redis(run, server, path, "counter:__rand_int__", asked)


def end_redis(run: Run, server: Target, path: str, counter: str, asked: int) -> None:
    """Have a counter read, and the server end."""
    client = ["redis-cli", "-s", path]
    get = [*client, "get", counter]
    got = subprocess.run(get, capture_output=True, text=True, check=False).stdout
    run.expect(got.strip() == str(asked), f"counted to {got!r} instead of {asked}")
    subprocess.run([*client, "shutdown", "nosave"], capture_output=True, check=False)
    wait_until(lambda: not server.alive, "redis to end", READY_S)
    run.expect(server.exit_code == 0, f"redis exits with {server.exit_code}")


class Cluster:
    """A PostgreSQL server of our own, run by a user that is not root, as it insists on."""

    def __init__(self, run: Run) -> None:
        self._binaries = Path(run.capability("postgres")).parent
        # Not in run.folder, which only its owner may enter.
        self.folder = Path(tempfile.mkdtemp(prefix="stress-postgres-"))
        run.at_end(lambda: shutil.rmtree(self.folder, ignore_errors=True))
        self._as_user: list[str] = []
        if os.geteuid() == 0:
            user = pwd.getpwnam("nobody")
            os.chown(self.folder, user.pw_uid, user.pw_gid)
            ids = [f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups"]
            self._as_user = ["setpriv", *ids]
        data = str(self.folder / "data")
        self._run("initdb", "-D", data, "-A", "trust", "-U", "bench", "--no-sync")
        # Frida reads shared memory while the target stands still: little of it, please.
        settings = ("fsync=off", "shared_buffers=4MB", "listen_addresses=", "max_connections=20")
        server = [str(self._binaries / "postgres"), "-D", data, "-k", str(self.folder)]
        options = [word for setting in settings for word in ("-c", setting)]
        self.server = run.start([*self._as_user, *server, *options])
        wait_until(
            lambda: not self.server.alive or "ready to accept" in "".join(self.server.errors),
            "postgres to be ready",
            READY_S,
        )
        self.client("psql", "-q", "-c", "create database bench", "postgres")

    def command(self, name: str, *arguments: str) -> list[str]:
        """A client's command line."""
        to_server = ["-h", str(self.folder), "-U", "bench"]
        return [*self._as_user, str(self._binaries / name), *to_server, *arguments]

    def client(self, name: str, *arguments: str) -> str:
        """Run a client to its end; return what it prints."""
        done = subprocess.run(
            self.command(name, *arguments), capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"{name}: {done.stderr} {self.server.errors[-5:]}"
        return done.stdout

    def sql(self, query: str) -> str:
        """Return what a query answers."""
        return self.client("psql", "-qAtc", query, "bench").strip()

    def _run(self, name: str, *arguments: str) -> None:
        command = [*self._as_user, str(self._binaries / name), *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{name}: {done.stderr}"


@scenario("postgres", "setpriv")
def postgres(run: Run) -> None:
    """PostgreSQL: a backend with updates to count; the postmaster while pgbench comes and goes."""
    cluster = Cluster(run)
    cluster.client("psql", "-q", "-c", "create table counter as select 0 as n", "bench")
    cluster.client("pgbench", "-i", "-q", "-s", "1", "bench")
    session = run.start(cluster.command("psql", "-qAt", "bench"))
    session.say("select pg_backend_pid();", READY_S)
    backend = int(session.lines[-1])
    updates = 0

    def update() -> None:
        nonlocal updates
        session.say("update counter set n = n + 1 returning n;", READY_S)
        updates += 1

    def bench() -> None:
        report = cluster.client("pgbench", "-n", "-c", "2", "-t", "50", "bench")
        run.expect("processed: 100/100" in report, f"pgbench: {report}")

    update()
    with (
        run.unharmed(backend, ignore=lambda line: "/data/" in line),  # it opens tables as it goes
        run.unharmed(cluster.server.pid),
        looping(update),
        looping(bench),
    ):
        both = [run.begin(pid) for pid in (backend, cluster.server.pid)]
        for recording in both:
            run.collect(recording)
    session.finish()
    total = cluster.sql("select n from counter")
    run.expect(total == str(updates), f"{total} updates are there, {updates} were made")
    shut_down(run, cluster.server)


def shut_down(run: Run, server: Target) -> None:
    """End a PostgreSQL, and look what it has told."""
    os.kill(server.pid, signal.SIGINT)  # "fast": ends sessions, writes everything
    wait_until(lambda: not server.alive, "postgres to end", READY_S)
    run.expect(server.exit_code == 0, f"postgres exits with {server.exit_code}")
    told = "\n".join(server.errors)
    # Backends whose client has just gone are ended by the shutdown itself: FATAL, too.
    before, _, _ = told.partition("received fast shutdown request")
    run.expect("FATAL" not in before, f"postgres says: {told}")
    for trouble in ("PANIC", "terminated by signal"):
        run.expect(trouble not in told, f"postgres says: {told}")


SQL = "with recursive c(i) as (select 1 union all select i + 1 from c where i < 20000) {}"
SUM = SQL.format("select sum(i * i % 97), count(distinct i % 31) from c;")


@scenario("sqlite3")
def sqlite(run: Run) -> None:
    """sqlite3 reading queries from a pipe; it has to answer each of them, and the same."""
    shell = run.start(["sqlite3", ":memory:"])
    asked = 0

    def query() -> None:
        nonlocal asked
        shell.say(SUM, READY_S)
        asked += 1

    query()  # then all its libraries are loaded
    with run.unharmed(shell.pid), looping(query):
        run.collect(run.begin(shell.pid))
    answers = shell.lines[:]
    shell.finish()
    run.expect(len(answers) == asked, f"{len(answers)} answers to {asked} queries")
    run.expect(len(set(answers)) == 1, f"answers differ: {set(answers)}")
