"""The HTTP server: werkzeug's, in the background, with one thread per connection.

Each open page keeps one connection for its events. With a thread pool, as many pages as it has
threads would block all other requests.
"""

from __future__ import annotations

import socket
import threading
import weakref
from typing import Any

from flask import Flask
from werkzeug.serving import ThreadedWSGIServer, WSGIRequestHandler

from flametap.errors import OutputError

from .api import Service
from .app import create_app
from .source import ProfileSource

POLL_S = 0.05  # the longest time until the accepting thread notices close()
GOODBYE_S = 5.0  # the longest wait for a page that does not read its connection


class _Handler(WSGIRequestHandler):
    protocol_version = "HTTP/1.1"  # keeps connections open for further requests

    def log(self, type: str, message: str, *args: Any) -> None:
        """Log nothing: stderr is the user's terminal, and the URL contains the token."""


class _WSGIServer(ThreadedWSGIServer):
    """Records its open connections, so that closing does not wait until pages are closed."""

    def __init__(self, address: tuple[str, int], app: Flask, fd: int) -> None:
        super().__init__(address[0], address[1], app, _Handler, fd=fd)
        self.connections: weakref.WeakSet[socket.socket] = weakref.WeakSet()

    def get_request(self) -> tuple[socket.socket, Any]:
        connection, peer = super().get_request()
        self.connections.add(connection)
        return connection, peer

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore errors of a connection: a page may be closed during a response."""

    def hang_up(self) -> None:
        """Shut down all connections; their threads then end by themselves."""
        for connection in list(self.connections):
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:  # already closed
                continue


class Server:
    """A running server.

    Attributes:
        url: of the page; contains the token.
    """

    def __init__(self, app: Flask, listener: socket.socket, host: str, token: str) -> None:
        self._service: Service = app.extensions["flametap"]
        port = listener.getsockname()[1]
        with listener:  # the server works on a duplicate
            self._server = _WSGIServer((host, port), app, listener.fileno())
        shown = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(
            host, f"[{host}]" if ":" in host else host
        )
        self.url = f"http://{shown}:{port}/{token}/"
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(POLL_S,), name="flametap-web", daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        """Tell the pages that the server closes, and free the port. Safe to call twice."""
        self._server.shutdown()
        self._thread.join()
        self._service.say_goodbye(GOODBYE_S)
        self._server.hang_up()
        self._server.server_close()


def serve(source: ProfileSource, host: str, port: int, token: str) -> Server:
    """Serve a profile in the background.

    Args:
        port: 0 for any free port.

    Raises:
        OutputError: the server cannot listen on the address.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, port), family=family, backlog=64)
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise OutputError(
            f"cannot serve the page on {host} port {port}: {reason}",
            "choose another with --port, or --port 0 for any free one",
        ) from error
    return Server(create_app(source, token), listener, host, token)
