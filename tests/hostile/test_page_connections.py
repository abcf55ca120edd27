"""Attack on the page's port: connections that never end a request, or never read, or too many.

The attacker knows the port, but not the token. A page that is open goes on, and another can be
opened. ``nobody``'s program does it; here it runs as ourselves, as the port does not ask who comes.
"""

from __future__ import annotations

import contextlib
import resource
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from flametap.model import Status
from flametap.web.server import Server, _Handler, serve
from made_server import TOKEN, MadeServer
from running import wait_until
from visitor import Visitor

MANY = 1000
HALF = b"GET /api/status HTTP/1.1\r\nHost: 127.0.0.1\r\n"
TIMEOUT_S = 120.0


@pytest.fixture
def made() -> MadeServer:
    made = MadeServer(200)
    made.advance(1.0)
    return made


@pytest.fixture
def server(made: MadeServer) -> Iterator[Server]:
    server = serve(made.views, "127.0.0.1", 0, TOKEN)
    yield server
    server.close()


@pytest.fixture
def usual_limit() -> Iterator[None]:
    """Have as many descriptors as most users do, the attackers' included in this process."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limits[1] < 2 * MANY:
        pytest.skip(f"the limit of descriptors is {limits[1]}")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(limits[0], 2 * MANY + 500), limits[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, limits)


def connect(server: Server, data: bytes = b"") -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", urlsplit(server.url).port or 0), TIMEOUT_S)
    connection.sendall(data)
    return connection


def answer(connection: socket.socket) -> bytes:
    """All that the server says until it hangs up."""
    data = b""
    with contextlib.suppress(ConnectionResetError):
        while more := connection.recv(1 << 16):
            data += more
    return data


def status_line(connection: socket.socket) -> bytes:
    return answer(connection).partition(b"\r\n")[0]


@pytest.mark.parametrize(
    "begun", [b"", b"G", HALF, b"POST /api/pause HTTP/1.1\r\nContent-Length: 20\r\n\r\n{"]
)
def test_half_open_requests_hold_no_threads_and_keep_nobody_out(
    server: Server, usual_limit: None, begun: bytes
) -> None:
    page = Visitor(server.url)
    before = threading.active_count()
    with contextlib.ExitStack() as stack:
        for _ in range(MANY):
            stack.enter_context(connect(server, begun))
        assert page.ask("status")["status"]["state"] == "recording"
        assert "<canvas" in Visitor(server.url).page
        assert threading.active_count() <= before + 3
        held = sum(
            link.readlink().name.startswith("socket:")
            for link in Path("/proc/self/fd").iterdir()
            if link.is_symlink()
        )
        assert held - MANY < 300  # theirs are in this process, too


def test_page_and_its_events_go_on_beside_connections_that_come_again_and_again(
    server: Server, made: MadeServer
) -> None:
    """The attackers keep all places busy: each opens a new connection as soon as one is closed."""
    page = Visitor(server.url)
    path = urlsplit(page.base).path
    head = f"GET {path}api/events HTTP/1.1\r\nHost: 127.0.0.1\r\nCookie: {page.cookie}\r\n\r\n"
    with connect(server, head.encode()) as events, attackers(server):
        for _ in range(20):
            made.advance(0.1)
            assert page.ask("status")["status"]["revision"] == made.revision
        seen = b""
        wanted = b'"revision":%d' % made.revision
        while wanted not in seen:
            more = events.recv(1 << 16)
            assert more, "the event stream has ended"
            seen = seen[-1000:] + more
        assert "<canvas" in Visitor(server.url).page


@contextlib.contextmanager
def attackers(server: Server) -> Iterator[None]:
    """Keep 600 connections open, from another process."""
    program = (
        "import socket, selectors, sys\n"
        "watch = selectors.DefaultSelector()\n"
        "def again():\n"
        "    each = socket.create_connection(('127.0.0.1', int(sys.argv[1])))\n"
        "    each.sendall(b'GET / HTTP/1.1\\r\\n')\n"
        "    watch.register(each, selectors.EVENT_READ)\n"
        "for _ in range(600): again()\n"
        "print('ready', flush=True)\n"
        "while True:\n"
        "    for key, _ in watch.select():\n"
        "        watch.unregister(key.fileobj)\n"
        "        key.fileobj.close()\n"
        "        try: again()\n"
        "        except OSError: sys.exit()\n"
    )
    port = str(urlsplit(server.url).port)
    with subprocess.Popen(
        [sys.executable, "-c", program, port], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
            yield
        finally:
            process.kill()


def test_request_that_drips_is_ended(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """A byte now and then does not move the deadline, in the headers nor in the body."""
    monkeypatch.setattr("flametap.web.gate.REQUEST_S", 1.0, raising=False)
    body = HALF + b"Authorization: Bearer " + TOKEN.encode() + b"\r\nContent-Length: 99\r\n\r\n"
    for begun in (HALF + b"X: ", body):
        with connect(server, begun) as slow:
            slow.settimeout(0.02)
            dripped = 0

            def is_ended(slow: socket.socket = slow) -> bool:
                nonlocal dripped
                dripped += 1
                try:
                    slow.send(b"x")
                    return b"408" in slow.recv(4096)
                except TimeoutError:
                    return False
                except OSError:
                    return True

            wait_until(is_ended, "the end of the connection", 60)
            assert dripped > 1, "it was ended at once"


def test_page_that_reads_nothing_is_hung_up_on(
    made: MadeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has the token; yet its thread does not stay for ever."""
    assert _Handler.timeout is not None
    monkeypatch.setattr(_Handler, "timeout", 0.5)
    status = made.recording.status()
    status.command = "x" * (16 << 20)  # more than the kernel keeps for a connection
    asked = threading.Event()

    def long_status() -> Status:
        asked.set()
        return status

    monkeypatch.setattr(made.recording, "status", long_status)
    server = serve(made.views, "127.0.0.1", 0, TOKEN)
    before = threading.active_count()
    # The first head is for servers that have the token in the path.
    heads = (
        f"GET /{TOKEN}/api/status HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
        (f"GET /api/status HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {TOKEN}\r\n\r\n"),
    )
    with contextlib.ExitStack() as stack:
        for head in heads:
            stack.enter_context(connect(server, head.encode()))
        assert asked.wait(10)
        wait_until(lambda: threading.active_count() <= before, "the end of its thread", 10)
    server.close()


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"GET /" + b"x" * 70_000 + b" HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", 414),
        (b"x" * 70_000, 414),
        (HALF + b"X: " + b"x" * 70_000 + b"\r\n\r\n", 431),
        (HALF + b"X: x\r\n" * 200 + b"\r\n", 431),
        (HALF + b"Content-Length: 10000000\r\n\r\n", 413),
        (HALF + b"Content-Length: -1\r\n\r\n", 400),
        (HALF + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\n", 400),
        (HALF + b"Content-Length: " + b"9" * 5000 + b"\r\n\r\n", 400),
        (HALF + b"Content-Length: \xb2\r\n\r\n", 400),
        (HALF + b"Transfer-Encoding: chunked\r\n\r\n", 411),
        (HALF + b"Authorization: Bearer wrong\r\n\r\n", 403),
        (HALF + b"\xff\xfe: \xff\r\n\r\n", 403),
        (b"GET //[ HTTP/1.1\r\n\r\n", 400),
        (
            b"GET /api/view?q=\xff HTTP/1.1\r\nAuthorization: Bearer "
            + TOKEN.encode()
            + b"\r\n\r\n",
            400,
        ),
        (b"GET http://[ HTTP/1.1\r\n\r\n", 400),
        (b"GET http://127.0.0.1/ HTTP/1.1\r\n\r\n", 400),
        (b"GET / HTTP/9\r\n\r\n", 400),
        (b"GET /\r\n\r\n", 400),
        (b"\r\n\r\n", 400),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 400),  # TLS
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400),
    ],
    ids=lambda value: repr(value)[:40] if isinstance(value, bytes) else str(value),
)
def test_malformed_and_endless_requests_are_refused_in_a_line(
    server: Server, capfd: pytest.CaptureFixture[str], request_bytes: bytes, status: int
) -> None:
    with connect(server, request_bytes) as connection:
        said = answer(connection)
    head, _, body = said.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 %d " % status), said
    assert b"Content-Security-Policy: default-src 'none'" in head
    assert body.count(b"\n") == 1
    assert b"Traceback" not in body
    assert capfd.readouterr() == ("", "")
