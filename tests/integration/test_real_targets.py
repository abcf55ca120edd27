"""Programs that nobody here wrote, at work: complete stacks, the names they should have, no harm.

Each is recorded under the load it is made for. 99 % of the CPU weight has to be in stacks that
reach their root; every name listed has to be there; and the no-harm receipt is the same before and
after, when the load is over.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

import kernel
import receipt
from flametap.capture.live import Capture
from flametap.model import Verdict
from nginx import NGINX_CONF
from nightly import nightly
from recording import ENOUGH_CPU_S, complete_share, doubts, record, share_of, stacks
from running import Target, wait_until
from targetbuild import SOURCES, Builder

pytestmark = pytest.mark.needs("attach")

Adopt = Callable[[Target], Target]
Require = Callable[[str], str]

BAR = 0.99


@dataclass(frozen=True)
class Expectation:
    """What a recording of a target has to show. ``names`` are frames, ``modules`` are file
    names."""

    names: tuple[str, ...]
    modules: tuple[str, ...] = ()
    has_jit: bool = False
    own_threads: str = ""


@contextmanager
def unharmed(pid: int, expected: Expectation) -> Iterator[None]:
    """Compares the no-harm receipts around the block."""
    before = receipt.take_at_rest(pid)
    yield
    found = receipt.harm_after_settling(
        pid, before, has_jit=expected.has_jit, own_threads=expected.own_threads
    )
    assert found == []


def check(capture: Capture, expected: Expectation) -> None:
    """Completeness, names and modules of a recording."""
    seen = stacks(capture)
    assert seen.total > 0, "the target did not run"
    assert complete_share(capture) >= BAR, f"{doubts(capture)}\n{seen.heaviest()}"
    missing = [name for name in expected.names if seen.names().isdisjoint(name.split("|"))]
    assert not missing, f"no {missing} in\n{seen.heaviest(20)}"
    modules = {module.name for module in capture.profile.modules.values()}
    assert set(expected.modules) <= modules, modules


@pytest.mark.needs("redis")
def test_redis_under_benchmark(adopt: Adopt, tmp_path: Path, seconds: float) -> None:
    socket = tmp_path / "redis.sock"
    server = ["redis-server", "--port", "0", "--unixsocket", str(socket), "--save", ""]
    target = adopt(Target([*server, "--dir", str(tmp_path)], announces=False))
    wait_until(lambda: "The server is now ready" in "".join(target.lines), "redis")
    expected = Expectation(
        names=("main", "aeMain", "readQueryFromClient"),
        modules=("libc.so.6",),
        own_threads="jemalloc_bg_thd",
    )
    with unharmed(target.pid, expected):
        load = [
            "redis-benchmark",
            "-s",
            str(socket),
            "-n",
            "100000000",
            "-q",
            "-t",
            "set",
            "-c",
            "8",
        ]
        benchmark = adopt(Target(load, announces=False))
        capture = record(target.pid, seconds, cpu_s=ENOUGH_CPU_S)
        assert benchmark.alive, benchmark.errors
        benchmark.close()
    check(capture, expected)
    ping = ["redis-cli", "-s", str(socket), "ping"]
    assert subprocess.run(ping, capture_output=True, text=True, check=True).stdout == "PONG\n"


@pytest.mark.needs("nginx", "wrk")
def test_nginx_worker_under_wrk(
    adopt: Adopt, require_capability: Require, tmp_path: Path, free_port: int, seconds: float
) -> None:
    (tmp_path / "www").mkdir()
    (tmp_path / "www" / "index.html").write_text("hello\n" * 100)
    conf = tmp_path / "nginx.conf"
    conf.write_text(NGINX_CONF.format(folder=tmp_path, port=free_port, more=""))
    nginx = require_capability("nginx")
    master = adopt(Target([nginx, "-p", tmp_path, "-c", conf], announces=False))
    children = Path(f"/proc/{master.pid}/task/{master.pid}/children")
    wait_until(lambda: children.read_text().split() or not master.alive, "nginx's worker")
    assert master.alive, master.errors
    worker = int(children.read_text().split()[0])
    expected = Expectation(
        names=("main", "ngx_master_process_cycle", "ngx_process_events_and_timers"),
        modules=("nginx", "libc.so.6"),
    )
    load = ["wrk", "-t1", "-c8", "-d600s", f"http://127.0.0.1:{free_port}/"]
    with unharmed(worker, expected):
        wrk = adopt(Target(load, announces=False))
        capture = record(worker, seconds, cpu_s=ENOUGH_CPU_S)
        assert wrk.alive, wrk.errors
        wrk.signal(signal.SIGINT)  # it reports then, too
        wait_until(lambda: not wrk.alive, "wrk to end")
        wrk.finish()  # and all of its report has been read
    check(capture, expected)
    report = "\n".join(wrk.lines)
    assert "requests in" in report, report
    assert "Socket errors" not in report, report
    assert "Non-2xx" not in report, report


@pytest.mark.parametrize("version", ["3.13", *nightly("3.11")])
def test_cpython(adopt: Adopt, require_capability: Require, seconds: float, version: str) -> None:
    own = f"{sys.version_info.major}.{sys.version_info.minor}" == version
    python = sys.executable if own else require_capability(f"python{version}")
    _check_python(adopt, python, seconds)


@pytest.mark.nightly
@pytest.mark.skipif(not Path("/usr/bin/python3").exists(), reason="no Python of the distribution")
def test_cpython_of_the_distribution(adopt: Adopt, seconds: float) -> None:
    _check_python(adopt, "/usr/bin/python3", seconds)


def _check_python(adopt: Adopt, python: str, seconds: float) -> None:
    target = adopt(Target([python, SOURCES / "busy.py"]))
    expected = Expectation(names=("outer", "inner", "hashing", "start_thread"))
    with unharmed(target.pid, expected):
        capture = record(target.pid, seconds, cpu_s=ENOUGH_CPU_S)
    check(capture, expected)
    assert len([info for info in capture.profile.thread_infos() if info.cpu_ns > 0]) >= 2
    assert target.finish() == ["done busy"]


@pytest.mark.needs("node")
def test_node(adopt: Adopt, seconds: float) -> None:
    target = adopt(Target(["node", SOURCES / "busy.js"]))
    expected = Expectation(names=("node::Start", "uv_run"), has_jit=True)
    with unharmed(target.pid, expected):
        capture = record(target.pid, seconds, cpu_s=ENOUGH_CPU_S)
    check(capture, expected)
    assert target.finish() == ["done busy"]


@pytest.mark.nightly
@pytest.mark.needs("java")
def test_java(adopt: Adopt, builder: Builder, seconds: float) -> None:
    classes = builder.java_class("Busy")
    target = adopt(Target(["java", "-Xshare:auto", "-cp", classes, "Busy"]))
    expected = Expectation(
        names=("start_thread", "java.lang.Thread.run", "Busy.fib"),
        modules=("libjvm.so",),
        has_jit=True,
        own_threads=r"(GC Thread|G1|C1 Comp|C2 Comp|VM ).*",
    )
    with unharmed(target.pid, expected):
        capture = record(target.pid, seconds, cpu_s=ENOUGH_CPU_S)
    check(capture, expected)
    assert target.finish() == ["done busy"]


@pytest.mark.needs("openssl")
@pytest.mark.parametrize(
    ("algorithm", "function"),
    [
        # The second on CPUs with AVX-512 IFMA.
        ("rsa2048", "BN_mod_exp_mont_consttime|BN_mod_exp_mont_consttime_x2"),
        *nightly(("sha256", "EVP_DigestUpdate"), ("aes-256-gcm", "EVP_EncryptUpdate")),
    ],
)
def test_openssl_speed(adopt: Adopt, algorithm: str, function: str, seconds: float) -> None:
    """Hand-written assembly with unusual call frame information."""
    evp = ["-evp"] if algorithm.startswith("aes") else []
    command = ["openssl", "speed", "-seconds", "60", *evp, algorithm]
    target = adopt(Target(command, announces=False))
    wait_until(lambda: kernel.process_cpu_ns(target.pid) > 50e6, "openssl at work")
    expected = Expectation(names=(function,), modules=("openssl", "libcrypto.so.3"))
    with unharmed(target.pid, expected):
        capture = record(target.pid, seconds, cpu_s=ENOUGH_CPU_S)
    check(capture, expected)
    assert target.alive


@pytest.mark.needs("rg")
def test_rust_program(adopt: Adopt, seconds: float) -> None:
    words = subprocess.Popen(["yes", "some words in a row"], stdout=subprocess.PIPE)
    try:
        target = adopt(
            Target(["rg", "-c", r"w[aeiou]+rd\d{3}x"], announces=False, stdin=words.stdout)
        )
        wait_until(lambda: kernel.process_cpu_ns(target.pid) > 20e6, "rg at work")
        expected = Expectation(names=(), modules=("rg", "libc.so.6"))
        with unharmed(target.pid, expected):
            capture = record(target.pid, seconds, cpu_s=ENOUGH_CPU_S)
        check(capture, expected)
        assert target.alive
        target.close()
    finally:
        words.kill()
        words.wait()
        assert words.stdout is not None
        words.stdout.close()


@pytest.mark.needs("age")
def test_go_program(adopt: Adopt, seconds: float) -> None:
    """Go with its own stacks, its own signal handlers and threads without frame information."""
    keys = subprocess.run(["age-keygen"], capture_output=True, text=True, check=True).stdout
    (recipient,) = [line.split(": ")[1] for line in keys.splitlines() if "public key" in line]
    target = adopt(
        Target(["age", "-r", recipient, "-o", "/dev/null", "/dev/zero"], announces=False)
    )
    wait_until(
        lambda: sum(kernel.cpu_ns(target.pid, t) for t in kernel.task_ids(target.pid)) > 20e6,
        "age at work",
        10,
    )
    expected = Expectation(names=("runtime.goexit", "main.main"), modules=("age",))
    with unharmed(target.pid, expected):
        capture = record(target.pid, seconds, cpu_s=ENOUGH_CPU_S)
    check(capture, expected)
    # Assembly that uses rbp for something else, too: by Go's own table, nothing is guessed.
    assert share_of(capture, Verdict.COMPLETE) >= BAR, doubts(capture)
    assert target.alive
