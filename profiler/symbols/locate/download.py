"""Download one file from a web server, within limits on time and size.

Source: RFC 9110; debuginfod(8), "WEBAPI" (``X-DEBUGINFOD-SIZE``).
"""

from __future__ import annotations

import contextlib
import http.client
import importlib.metadata
import socket
import ssl
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, BinaryIO

_CHUNK_BYTES = 1 << 18
# Errors of a failed connection in urllib: URLError until the request is sent, the others later.
_NETWORK_ERRORS = (
    urllib.error.URLError,
    http.client.HTTPException,
    ConnectionError,
    TimeoutError,
    ssl.SSLError,
    ValueError,
)


class DownloadError(Exception):
    """The server did not send the file; the message gives the reason, in one line."""


class NotFoundError(DownloadError):
    """The server answered that it has no such file."""


class StalledError(DownloadError):
    """The server cannot be reached, or is too slow."""


@dataclass(frozen=True)
class Limits:
    """Limits for a download."""

    connect_s: float = 10.0
    # A server that unpacks a package first needs some seconds before it answers.
    stall_s: float = 60.0
    stall_bytes: int = 100 << 10  # minimum to be received within each stall_s
    total_s: float = 900.0
    size_bytes: int = 4 << 30


class Downloader:
    """Downloads files, in any thread, until it is closed.

    Args:
        limits: the limits for each file.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._closing = False
        self._watches: set[_Watch] = set()

    def close(self) -> None:
        """Cancel the current downloads, and refuse new ones."""
        self._closing = True
        for watch in tuple(self._watches):
            watch.shut_down()

    def download(self, url: str, file: BinaryIO) -> None:
        """Download ``url`` to ``file``.

        Raises:
            DownloadError: see its subclasses.
            OSError: the file cannot be written.
        """
        watch = _Watch(self._limits.stall_s)
        self._watches.add(watch)
        try:
            if self._closing:
                raise DownloadError("was not asked")
            with contextlib.closing(_open(url, watch, self._limits.connect_s)) as response:
                watch.answered()
                self._copy(response, file)
        except urllib.error.HTTPError as error:
            error.close()
            kind = NotFoundError if error.code in (404, 410) else DownloadError
            raise kind(f"answered {error.code} {error.reason}") from error
        except _NETWORK_ERRORS as error:
            raise self._our_error(error, watch) from error
        finally:
            self._watches.discard(watch)
            watch.close()

    def _our_error(self, error: Exception, watch: _Watch) -> DownloadError:
        """Return our error for a network error."""
        limits = self._limits
        reason = error.reason if isinstance(error, urllib.error.URLError) else error
        if self._closing:
            return DownloadError("was not waited for")
        if isinstance(reason, TimeoutError) and not watch.is_connected:
            return StalledError(f"cannot be reached within {limits.connect_s:g} s")
        if isinstance(reason, TimeoutError) or watch.has_fired:
            return StalledError(f"was silent for {limits.stall_s:g} s")
        if not watch.is_connected:
            return StalledError(f"cannot be reached: {_line(reason)}")
        return DownloadError(f"did not send it, because the connection failed: {_line(reason)}")

    def _copy(self, response: http.client.HTTPResponse, file: BinaryIO) -> None:
        limits = self._limits
        size = response.headers.get("Content-Length") or response.headers.get("X-DEBUGINFOD-SIZE")
        expected = int(size) if size and size.isdigit() else None
        if expected is not None and expected > limits.size_bytes:
            raise DownloadError(f"has a file of {expected} bytes, which is over the limit")
        begin_s = window_s = time.monotonic()
        received = window_bytes = 0
        while chunk := response.read1(_CHUNK_BYTES):
            file.write(chunk)
            received += len(chunk)
            now_s = time.monotonic()
            if received > limits.size_bytes:
                raise DownloadError(f"sends more than {limits.size_bytes} bytes, the limit")
            if now_s - begin_s > limits.total_s:
                raise StalledError(f"did not finish within {limits.total_s:g} s")
            if now_s - window_s > limits.stall_s:
                if received - window_bytes < limits.stall_bytes:
                    raise StalledError(f"is too slow: {received} bytes in {now_s - begin_s:.0f} s")
                window_s, window_bytes = now_s, received
        if expected is not None and received != expected:
            raise DownloadError(f"ended after {received} of {expected} bytes")


class _Watch:
    """Shuts a connection down if the answer does not begin in time.

    A server that sends its headers byte by byte never exceeds the timeout of a socket.
    """

    def __init__(self, limit_s: float) -> None:
        self.limit_s = limit_s
        self.has_fired = False
        self._sockets: list[socket.socket] = []  # one more for each redirection
        self._timer = threading.Timer(limit_s, self._fire)
        self._timer.daemon = True

    @property
    def is_connected(self) -> bool:
        """True once a server was reached."""
        return bool(self._sockets)

    def add(self, connection: socket.socket) -> None:
        """Start the timer. We keep a duplicate, because TLS takes over the original socket."""
        if not self._sockets:
            self._timer.start()
        self._sockets.append(connection.dup())

    def answered(self) -> None:
        """Stop the timer: the answer has begun."""
        self._timer.cancel()

    def shut_down(self) -> None:
        """Shut the connections down; reads from them then fail."""
        for connection in tuple(self._sockets):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Close the connections."""
        self._timer.cancel()
        for connection in self._sockets:
            connection.close()

    def _fire(self) -> None:
        self.has_fired = True
        self.shut_down()


class _Connection(http.client.HTTPConnection):
    """A connection that is watched from its first byte."""

    watch: _Watch

    def connect(self) -> None:
        super().connect()
        self.sock.settimeout(self.watch.limit_s)
        self.watch.add(self.sock)


class _SecureConnection(http.client.HTTPSConnection, _Connection):
    """A watched connection with TLS: by the order of bases, TLS begins after ``connect`` above."""


class _Handler(urllib.request.HTTPHandler, urllib.request.HTTPSHandler):
    """Opens watched connections for both schemes."""

    def __init__(self, watch: _Watch) -> None:
        super().__init__()
        self._watch = watch

    def http_open(self, request: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(self._watched(_Connection), request)

    def https_open(self, request: urllib.request.Request) -> http.client.HTTPResponse:
        context = ssl.create_default_context()
        return self.do_open(self._watched(_SecureConnection), request, context=context)

    def _watched(self, kind: type[_Connection]) -> Callable[..., Any]:
        def connect(host: str, **arguments: Any) -> _Connection:
            connection = kind(host, **arguments)
            connection.watch = self._watch
            return connection

        return connect


def _open(url: str, watch: _Watch, connect_s: float) -> http.client.HTTPResponse:
    """Open a URL with http or https only, even after a redirection.

    A server must not redirect us to a local file.
    """
    opener = urllib.request.OpenerDirector()
    for handler in (
        urllib.request.ProxyHandler(),
        _Handler(watch),
        urllib.request.HTTPDefaultErrorHandler(),
        urllib.request.HTTPRedirectHandler(),
        urllib.request.HTTPErrorProcessor(),
        urllib.request.UnknownHandler(),
    ):
        opener.add_handler(handler)
    version = importlib.metadata.version("flametap")
    headers = {"User-Agent": f"flametap/{version}", "Accept-Encoding": "identity"}
    request = urllib.request.Request(url, headers=headers)
    response: http.client.HTTPResponse = opener.open(request, timeout=connect_s)
    return response


def _line(error: object) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
