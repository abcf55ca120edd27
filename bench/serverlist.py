"""The servers of bench ``servers``: set-up, start and load of each."""

from __future__ import annotations

import signal
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import programs
from realservers import NGINX_CONF, Site, find, free_port, listens, succeeds

CONNECTIONS = "8"
FOR_EVER = "100000"  # seconds
ROWS = "10000"
# Without insecure-fork-wanted haproxy sets RLIMIT_NPROC to 0: no agent's thread could be started.
HAPROXY_CONF = """
global
  user haproxy
  group haproxy
  nbthread 1
  insecure-fork-wanted
defaults
  mode http
  timeout connect 5s
  timeout client 30s
  timeout server 30s
frontend front
  bind 127.0.0.1:{port}
  default_backend back
backend back
  server one 127.0.0.1:{behind}
"""


@dataclass(frozen=True)
class Server:
    """A server with its load. ``start`` starts both on a site."""

    name: str
    needs: tuple[str, ...]  # programs
    start: Callable[[Site], None]

    @property
    def missing(self) -> list[str]:
        """Return the programs that are not installed."""
        return [program for program in self.needs if not find(program)]


def _mariadb(site: Site) -> None:
    folder, is_new = site.own_folder("mariadb", "mysql")
    data, path = f"--datadir={folder}/data", f"--socket={folder}/socket"
    if is_new:
        how = ("--auth-root-authentication-method=normal", "--skip-test-db", "--user=mysql")
        site.run(find("mariadb-install-db"), "--no-defaults", *how, data)
    client = (find("mariadb"), "--no-defaults", path, "--user=root")
    site.start(
        *(find("mariadbd"), "--no-defaults", "--user=mysql", data, path, "--skip-networking"),
        is_ready=succeeds(*client, "--execute=select 1"),
    )
    load = [find("sysbench"), "oltp_point_select", f"--mysql-socket={folder}/socket"]
    load += ["--mysql-user=root", "--mysql-db=bench", "--tables=1", f"--table-size={ROWS}"]
    if is_new:
        site.run(*client, "--execute=create database bench")
        site.run(*load, "prepare")
    site.load(*load, "--threads=4", f"--time={FOR_EVER}", "--report-interval=1", "run")


def _postgres(site: Site) -> None:
    folder, is_new = site.own_folder("postgres", "postgres")
    data, to_server = folder / "data", ("-h", str(folder), "-U", "bench", "postgres")
    if is_new:
        how = ("-A", "trust", "-U", "bench", "--no-sync")
        site.run(find("initdb"), "-D", data, *how, user="postgres")
    site.start(
        *(find("postgres"), "-D", data, "-k", folder, "-c", "listen_addresses="),
        user="postgres",
        end_by=signal.SIGINT,  # it does not wait for clients
        is_ready=succeeds(find("psql"), "-qc", "select 1", *to_server),
    )
    if is_new:
        site.run(find("pgbench"), "-i", "-q", "-s", "2", *to_server)
    site.load(find("pgbench"), "-n", "-S", "-c", "2", "-T", FOR_EVER, "-P", "1", *to_server)


def _memcached(site: Site) -> None:
    load, port = site.folder / "memload", free_port()
    if not load.exists():
        programs.build("memload", site.folder)
    site.start(
        *(find("memcached"), "-u", "nobody", "-l", "127.0.0.1", "-p", str(port)),
        is_ready=listens(port),
    )
    site.load(load, str(port), CONNECTIONS)


def _redis(*options: str) -> Callable[[Site], None]:
    def start(site: Site) -> None:
        folder, _ = site.own_folder("redis", "redis")
        port = str(free_port())
        site.start(
            *(find("redis-server"), "--bind", "127.0.0.1", "--port", port, "--save", ""),
            *("--dir", folder),
            user="redis",
            is_ready=listens(int(port)),
        )
        load = (find("redis-benchmark"), "-p", port, "-c", CONNECTIONS, "-t", "get", "-q")
        site.load(*load, "-n", "2000000000", "-r", "1000", "-d", "100", *options)

    return start


def _start_nginx(site: Site) -> int:
    """Start nginx with a worker as www-data; returns its port."""
    folder, is_new = site.own_folder("nginx", "www-data")
    port, conf = free_port(), folder / "nginx.conf"
    if is_new:
        (folder / "www").mkdir()
        (folder / "www" / "index.html").write_text("hello\n" * 100)
    text = NGINX_CONF.format(folder=folder, port=port, more="keepalive_requests 1000000;")
    conf.write_text(text.replace("user root", "user www-data"))
    site.start(find("nginx"), "-p", folder, "-c", conf, is_ready=listens(port))
    return port


def _wrk(site: Site, port: int) -> None:
    url = f"http://127.0.0.1:{port}/index.html"
    site.load(find("wrk"), "-t", "1", "-c", CONNECTIONS, "-d", FOR_EVER, url)


def _nginx(site: Site) -> None:
    _wrk(site, _start_nginx(site))


def _haproxy(site: Site) -> None:
    behind, port = _start_nginx(site), free_port()
    conf = Path(site.folder / "haproxy.cfg")
    conf.write_text(HAPROXY_CONF.format(port=port, behind=behind))
    # A master, and a worker as haproxy.
    site.start(find("haproxy"), "-W", "-f", conf, is_ready=listens(port))
    _wrk(site, port)


SERVERS = (
    Server("mariadbd, sysbench", ("mariadbd", "mariadb-install-db", "sysbench"), _mariadb),
    Server("postgres, pgbench -S", ("postgres", "initdb", "pgbench"), _postgres),
    Server("memcached", ("memcached", "gcc"), _memcached),
    Server("redis", ("redis-server", "redis-benchmark"), _redis()),
    Server("redis, pipeline of 16", ("redis-server", "redis-benchmark"), _redis("-P", "16")),
    Server("nginx, wrk", ("nginx", "wrk"), _nginx),
    Server("haproxy before nginx, wrk", ("haproxy", "nginx", "wrk"), _haproxy),
)
