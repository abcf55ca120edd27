"""Real programs at work: each entry starts one with its load and gives the process to look at.

``LOADED`` compute, ``WAITING`` sleep most of the time, in as many places of their code as possible.
All are ended when the block is left. Files go to the folder that is given.
"""

from __future__ import annotations

import os
import random
import shutil
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import kernel
from capabilities import find
from nginx import NGINX_CONF
from running import Target, wait_until
from targetbuild import SOURCES, Builder

READY_S = 120.0
PYTHONS = ("3.8", "3.9", "3.10", "3.11", "3.12", "3.13")
OPENSSL_SPEEDS = ("rsa2048", "ecdsap256", "aes-256-gcm", "chacha20-poly1305", "sha256")

Start = Callable[[Path], AbstractContextManager[int]]


@dataclass(frozen=True)
class Program:
    """``needs``: capabilities; ``start``: folder → the pid of a process that is at work."""

    needs: tuple[str, ...]
    start: Start


def free_port() -> int:
    """A TCP port nobody uses."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def running(argv: Sequence[str | Path], *, announces: bool = False) -> Iterator[Target]:
    """A program, ended with its children when the block is left."""
    target = Target(argv, announces=announces)
    try:
        yield target
    finally:
        target.close()


def _python(version: str) -> str:
    own = f"{sys.version_info.major}.{sys.version_info.minor}"
    found = find(f"python{version}")
    return found or (sys.executable if version == own else "")


def _at_work(target: Target, cpu_ms: float = 50) -> None:
    wait_until(
        lambda: not target.alive or kernel.process_cpu_ns(target.pid) > cpu_ms * 1e6,
        f"{target.name} at work",
        READY_S,
    )
    assert target.alive, f"{target.name}: {target.errors[-5:]}"


def _script(*argv: str | Path) -> Start:
    """A target of tests/targets that announces itself."""

    @contextmanager
    def start(folder: Path) -> Iterator[int]:
        with running(argv, announces=True) as target:
            yield target.pid

    return start


def _java(name: str, *options: str) -> Start:
    @contextmanager
    def start(folder: Path) -> Iterator[int]:
        classes = Builder().java_class(name)
        with running(["java", *options, "-cp", classes, name], announces=True) as target:
            yield target.pid

    return start


def _plain(*argv: str, cpu_ms: float = 50) -> Start:
    @contextmanager
    def start(folder: Path) -> Iterator[int]:
        with running(argv) as target:
            _at_work(target, cpu_ms)
            yield target.pid

    return start


def _openssl(algorithm: str) -> Start:
    evp = ["-evp"] if algorithm in ("aes-256-gcm", "chacha20-poly1305") else []
    return _plain("openssl", "speed", "-seconds", "600", *evp, algorithm)


@contextmanager
def _openssl_parent(folder: Path) -> Iterator[int]:
    """It waits for the results of its children."""
    with running(["openssl", "speed", "-seconds", "600", "-multi", "2", "sha256"]) as target:
        children = Path(f"/proc/{target.pid}/task/{target.pid}/children")
        wait_until(lambda: len(children.read_text().split()) == 2, "openssl's children", READY_S)
        yield target.pid


@contextmanager
def _until_over(loop: Callable[[], None]) -> Iterator[None]:
    """Call something again and again while the block runs."""
    over = threading.Event()

    def run() -> None:
        while not over.is_set():
            try:
                loop()
            except OSError:
                over.wait(0.05)  # the server is busy or about to end

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


# ---- servers


@contextmanager
def _redis(folder: Path, *options: str) -> Iterator[tuple[int, str]]:
    path = str(folder / "redis.sock")
    argv = ["redis-server", "--port", "0", "--unixsocket", path, "--save", "", "--dir", str(folder)]
    with running([*argv, "--enable-debug-command", "yes", *options]) as server:
        wait_until(lambda: "ready to accept" in "".join(server.lines), "redis to be ready", READY_S)
        yield server.pid, path


@contextmanager
def _redis_loaded(folder: Path) -> Iterator[int]:
    with _redis(folder) as (pid, path):
        commands = ["redis-benchmark", "-s", path, "-n", "100000000", "-q", "-t", "set", "-c", "8"]
        with running(commands):
            yield pid


@contextmanager
def _redis_waiting(folder: Path) -> Iterator[int]:
    """Sleeps inside commands, flushes its log, has threads for input and output."""
    with _redis(folder, "--io-threads", "3", "--appendonly", "yes") as (pid, path):

        def ask() -> None:
            commands = [
                "debug sleep 0.02",
                "set a b",
                "lpush l 1 2 3",
                'eval \'return redis.call("set","a","b")\' 0',
                "multi\ndebug sleep 0.01\nexec",
                "flushall async",
            ]
            subprocess.run(
                ["redis-cli", "-s", path],
                input="\n".join(random.sample(commands, 3)).encode(),
                stdout=subprocess.DEVNULL,
                check=False,
            )
            time.sleep(random.uniform(0, 0.05))  # the load's own pace

        with _until_over(ask):
            yield pid


@contextmanager
def _nginx(folder: Path, more: str = "") -> Iterator[tuple[int, str]]:
    (folder / "www").mkdir()
    (folder / "www" / "index.html").write_text("hello\n" * 100)
    port, conf = free_port(), folder / "nginx.conf"
    conf.write_text(NGINX_CONF.format(folder=folder, port=port, more=more))
    with running([find("nginx") or "nginx", "-p", folder, "-c", conf]) as master:
        children = Path(f"/proc/{master.pid}/task/{master.pid}/children")
        wait_until(lambda: children.read_text().split(), "nginx's worker", READY_S)
        yield int(children.read_text().split()[0]), f"http://127.0.0.1:{port}/"


@contextmanager
def _nginx_loaded(folder: Path) -> Iterator[int]:
    with _nginx(folder) as (pid, url), running(["wrk", "-t1", "-c8", "-d600s", url]):
        yield pid


@contextmanager
def _nginx_waiting(folder: Path) -> Iterator[int]:
    def ask() -> None:
        urllib.request.urlopen(url, timeout=5).read()
        time.sleep(random.uniform(0, 0.03))

    with _nginx(folder, "aio threads; directio 1; sendfile off;") as (pid, url), _until_over(ask):
        yield pid


@contextmanager
def _caddy(folder: Path) -> Iterator[int]:
    (folder / "index.html").write_text("hello\n" * 100)
    port = free_port()
    server = ["caddy", "file-server", "--root", str(folder), "--listen", f"127.0.0.1:{port}"]
    with running(["env", f"HOME={folder}", *server]) as caddy:
        url = f"http://127.0.0.1:{port}/"

        def answers() -> bool:
            try:
                return bool(urllib.request.urlopen(url, timeout=2).read())
            except OSError:
                return False

        wait_until(answers, "caddy to answer", READY_S)
        with running(["wrk", "-t1", "-c8", "-d600s", url]):
            yield caddy.pid


@contextmanager
def _rg(folder: Path) -> Iterator[int]:
    words = subprocess.Popen(["yes", "some words in a row"], stdout=subprocess.PIPE)
    assert words.stdout is not None
    try:
        target = Target(["rg", "-c", r"w[aeiou]+rd\d{3}x"], announces=False, stdin=words.stdout)
        try:
            _at_work(target)
            yield target.pid
        finally:
            target.close()
    finally:
        words.kill()
        words.wait()
        words.stdout.close()


# ---- postgres


POSTGRES = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"))
_AS = ("setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups")


@contextmanager
def _postgres(folder: Path) -> Iterator[tuple[int, list[str]]]:
    """A server of its own, and the options by which clients find it."""
    binaries, data = POSTGRES[-1].parent, folder / "data"
    identity: Sequence[str] = _AS if os.getuid() == 0 else ()
    for parent in (folder, *folder.parents):
        if parent.is_relative_to("/tmp") and parent != Path("/tmp"):
            parent.chmod(parent.stat().st_mode | 0o055)
    data.mkdir()
    if identity:
        shutil.chown(data, "postgres", "postgres")
        shutil.chown(folder, "postgres", "postgres")
    setup = [*identity, str(binaries / "initdb"), "-D", str(data), "-U", "me", "-A", "trust", "-N"]
    done = subprocess.run(setup, capture_output=True, text=True, check=False, cwd="/")
    assert done.returncode == 0, done.stderr
    settings = ["-c", "listen_addresses=", "-c", f"unix_socket_directories={folder}"]
    settings += ["-c", "shared_buffers=4MB", "-c", "fsync=off"]
    client = ["-h", str(folder), "-U", "me"]
    with running([*identity, binaries / "postgres", "-D", data, *settings]) as server:
        ready = [str(binaries / "pg_isready"), *client]
        wait_until(
            lambda: subprocess.run(ready, capture_output=True, check=False).returncode == 0,
            "postgres to be ready",
            READY_S,
        )
        yield server.pid, client


def _backend(postmaster: int, activity: bytes, count: int = 1) -> int:
    """A child of the postmaster whose title has this text, once there are ``count`` such."""
    children = Path(f"/proc/{postmaster}/task/{postmaster}/children")

    def found() -> list[int]:
        matching = []
        for pid in map(int, children.read_text().split()):
            with suppress(OSError):  # it has just ended
                if activity in Path(f"/proc/{pid}/cmdline").read_bytes():
                    matching.append(pid)
        return matching

    wait_until(lambda: len(found()) >= count, f"postgres processes {activity!r}", READY_S)
    return found()[-1]


@contextmanager
def _postgres_loaded(folder: Path) -> Iterator[int]:
    with _postgres(folder) as (postmaster, client):
        bench = [str(POSTGRES[-1].parent / "pgbench"), *client, "postgres"]
        subprocess.run([*bench, "-i", "-q"], capture_output=True, check=True)
        with running([*bench, "-T", "600", "-c", "2"]):
            yield _backend(postmaster, b"[local]", 2)


_STATEMENTS = """
select pg_sleep(0.05);
select count(pg_sleep(0.04)) from generate_series(1, 3);
select nap(3);
with x as materialized (select nap(1)) select * from x order by 1;
select sum(y) over () from (select extract(epoch from now()) y, pg_sleep(0.05)) z;
update counted set n = n + 1;
insert into counted select 1 from pg_sleep(0.05);
select pg_advisory_xact_lock(1), pg_sleep(0.05);
do $$ begin perform pg_sleep(0.05); raise exception 'x'; exception when others then null; end $$;
"""
_SCHEMA = """
create table counted (n int);
insert into counted values (1);
create function nap(depth int) returns int language plpgsql as $$
begin
  if depth = 0 then perform pg_sleep(0.05); return 0; end if;
  return nap(depth - 1);
end $$;
create function doze() returns trigger language plpgsql as $$
begin perform pg_sleep(0.05); return new; end $$;
create trigger doze before insert on counted for each row execute function doze();
"""


def _postgres_waiting(activity: bytes, count: int) -> Start:
    """Backends that sleep in functions, wait for locks and for their clients; or a helper."""

    @contextmanager
    def start(folder: Path) -> Iterator[int]:
        with _postgres(folder) as (postmaster, client), ExitStack() as loads:
            psql = [str(POSTGRES[-1].parent / "psql"), *client, "postgres"]
            subprocess.run(psql, input=_SCHEMA, text=True, capture_output=True, check=True)
            scripts = []
            for i, statement in enumerate(_STATEMENTS.strip().splitlines()):
                script = folder / f"{i}.sql"
                script.write_text(statement + "\n\\sleep 20 ms\n")
                scripts += ["-f", str(script)]
            bench = [str(POSTGRES[-1].parent / "pgbench"), *client, "postgres", "-n", *scripts]
            loads.enter_context(running([*bench, "-T", "600", "-c", "3"]))
            yield _backend(postmaster, activity, count)

    return start


@contextmanager
def _sqlite(folder: Path) -> Iterator[int]:
    query = (
        "create table t(a, b);"
        "with recursive n(i) as (select 1 union all select i + 1 from n limit 200000) "
        "insert into t select i, hex(randomblob(8)) from n;"
        "with recursive n(i) as (select 1 union all select i + 1 from n limit 100000000) "
        "select count(*) from n join t on t.a = n.i % 200000 where t.b like '%AB%';"
    )
    with running(["sqlite3", ":memory:", query]) as target:
        _at_work(target)
        yield target.pid


_FFMPEG = ("ffmpeg", "-v", "error", "-nostdin", "-f", "lavfi", "-i", "testsrc2=s=1280x720:r=30")
_ENCODE = ("-c:v", "libx264", "-preset", "slow", "-f", "null", "-")

LOADED: dict[str, Program] = {
    "redis": Program(("redis",), _redis_loaded),
    "postgres": Program(("postgres",), _postgres_loaded),
    "node": Program(("node",), _script("node", SOURCES / "busy.js")),
    **{
        f"python{v}": Program((f"python{v}",), _script(_python(v), SOURCES / "busy.py"))
        for v in PYTHONS
    },
    "java": Program(("java",), _java("Busy")),
    **{f"openssl {a}": Program(("openssl",), _openssl(a)) for a in OPENSSL_SPEEDS},
    "ffmpeg": Program(("ffmpeg",), _plain(*_FFMPEG, *_ENCODE, cpu_ms=300)),
    "nginx": Program(("nginx", "wrk"), _nginx_loaded),
    "sqlite3": Program(("sqlite3",), _sqlite),
    "caddy": Program(("caddy", "wrk"), _caddy),
    "rg": Program(("rg",), _rg),
}
WAITING: dict[str, Program] = {
    "redis": Program(("redis",), _redis_waiting),
    "postgres backend": Program(("postgres",), _postgres_waiting(b"[local]", 3)),
    "postgres checkpointer": Program(("postgres",), _postgres_waiting(b"checkpointer", 1)),
    "node": Program(("node",), _script("node", SOURCES / "waits.js")),
    **{
        f"python{v}": Program((f"python{v}",), _script(_python(v), SOURCES / "waits.py"))
        for v in PYTHONS
    },
    # Compiled code without frame pointers is more than eu-stack and gdb can walk.
    "java": Program(("java",), _java("Waits", "-XX:+PreserveFramePointer")),
    "openssl": Program(("openssl",), _openssl_parent),
    "ffmpeg": Program(("ffmpeg",), _plain(*_FFMPEG, *_ENCODE, cpu_ms=300)),
    "nginx": Program(("nginx",), _nginx_waiting),
}
