"""The HTTP server: the gate reads requests, werkzeug's handler answers each in a thread of its own.

Each open page keeps one connection for its events. With a thread pool, as many pages as it has
threads would block all other requests. Here streams have a limit below that of all connections.
"""

from __future__ import annotations

import contextlib
import io
import ipaddress
import socket
import threading
from typing import Any

from flask import Flask
from werkzeug.serving import BaseWSGIServer, WSGIRequestHandler

from flametap.analysis.views import Views
from flametap.errors import OutputError

from .api import MAX_STREAMS, Service
from .app import create_app
from .control_types import Controls
from .gate import Gate, Peer
from .login import Key
from .recordings import Recordings

MAX_ANSWERS = MAX_STREAMS + 64  # at a time; a page asks for two at once, a browser for six
BACKLOG = 512  # connections that the kernel keeps for us; a flood fills it within milliseconds
ANSWER_S = 60.0  # the longest time for one write: megabytes, through a slow tunnel
GOODBYE_S = 5.0  # the longest wait for a page that does not read its connection


class _Handler(WSGIRequestHandler):
    """Answers one request, which has been read already."""

    protocol_version = "HTTP/1.1"  # for chunks: streams
    timeout = ANSWER_S

    def setup(self) -> None:
        self.request, data = self.request
        super().setup()
        self.rfile.close()
        self.rfile = io.BufferedReader(io.BytesIO(data))

    def version_string(self) -> str:
        """Return the Server header: no versions, which only tell what to attack."""
        return "flametap"

    def log(self, type: str, message: str, *args: Any) -> None:
        """Log nothing: stderr is the user's terminal, and the URL may contain the token."""


class _WSGIServer(BaseWSGIServer):
    """Holds what the handler asks its server for, and the listening socket."""

    multithread = True

    def log(self, type: str, message: str, *args: Any) -> None:
        """Log nothing: see the handler."""


class Server:
    """A running server.

    Attributes:
        url: to open the page with; contains the token.
        form: HTML that opens the page, for a file that only the user may read.
        is_exposed: True if other machines can reach it.
    """

    def __init__(self, app: Flask, listener: socket.socket, host: str, token: str) -> None:
        self._service: Service = app.extensions["flametap"]
        address, port = listener.getsockname()[:2]
        self.is_exposed = not ipaddress.ip_address(address.partition("%")[0]).is_loopback
        with listener:  # the server works on a duplicate
            self._wsgi = _WSGIServer(host, port, app, _Handler, fd=listener.fileno())
        shown = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(
            host, f"[{host}]" if ":" in host else host
        )
        origin = f"http://{shown}:{port}/"
        key = Key(token)
        self.url = f"{origin}?token={token}"
        self.form = key.form(origin)
        self._answering: set[socket.socket] = set()
        self._changed = threading.Condition()  # of the set
        self._gate = Gate(self._wsgi.socket, key.is_in, self._serve)

    def close(self) -> None:
        """Tell the pages that the server closes, and free the port. Safe to call twice."""
        self._gate.close()
        self._service.closing.set()
        with self._changed:  # a browser may not look at a bye before the end of its answer
            self._changed.wait_for(lambda: not self._answering, GOODBYE_S)
        self.hang_up()

    def hang_up(self) -> None:
        """Free the port and end all connections without a word; their threads end by themselves."""
        self._gate.close()
        self._wsgi.server_close()
        with self._changed:
            for connection in self._answering:
                with contextlib.suppress(OSError):  # closed by the client
                    connection.shutdown(socket.SHUT_RDWR)

    def _serve(self, connection: socket.socket, peer: Peer, request: bytes) -> bool:
        with self._changed:
            if len(self._answering) >= MAX_ANSWERS:
                return False
            self._answering.add(connection)
        arguments = (connection, peer, request)
        thread = threading.Thread(
            target=self._answer, args=arguments, name="flametap-web-answer", daemon=True
        )
        try:
            thread.start()
        except RuntimeError:  # the limit of threads
            with self._changed:
                self._answering.remove(connection)
            return False
        return True

    def _answer(self, connection: socket.socket, peer: Peer, request: bytes) -> None:
        try:
            self._wsgi.finish_request((connection, request), peer)  # type: ignore[arg-type]
        except Exception:  # a page may be closed during a response; errors of ours are answers
            pass
        finally:
            with self._changed:
                self._answering.remove(connection)
                self._changed.notify_all()
            self._wsgi.shutdown_request(connection)


def serve(
    shown: Views | Recordings,
    host: str,
    port: int,
    token: str,
    *,
    view: str = "",
    controls: Controls | None = None,
) -> Server:
    """Serve recordings in the background.

    Args:
        shown: the views of a recording, or several recordings.
        host: the address to listen on.
        port: 0 for any free port.
        token: opens the page.
        view: the state in which the page opens, as its own URL has it after ``#``.
        controls: of the recorder; None if nothing is being recorded.

    Raises:
        OutputError: the server cannot listen on the address.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, port), family=family, backlog=BACKLOG)
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise OutputError(
            f"cannot serve the page on {host} port {port}: {reason}",
            "choose another with --port, or --port 0 for any free one",
        ) from error
    app = create_app(shown, token, view, controls)
    first = app.extensions["flametap"].recordings.get(1)
    if first.recording.status().is_final:  # the first tree stays the newest
        first.trees.begin()
    return Server(app, listener, host, token)
