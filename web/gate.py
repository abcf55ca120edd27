"""The gate: read whole requests of all connections, and pass on those that hold a secret of ours.

Until then a connection costs a descriptor and at most 130 kB: no thread, and nothing of the
application sees its bytes. The gate refuses whatever is too long, too slow, malformed or without
the token or the cookie; that a secret is in the right place is checked later (guard.py). When there
are too many connections, the one that waits longest is closed. So nobody without a secret can keep
those out who have one: their requests are complete at once, and then count no more here.

Bodies need a Content-Length. One thread runs all this; ``close`` may be called by any.
"""

from __future__ import annotations

import http.client
import io
import selectors
import socket
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from http import HTTPStatus
from typing import Any
from urllib.parse import urlsplit

from .guard import HEADERS
from .login import HOW_TO_ENTER

MAX_WAITING = 256  # a quarter of the descriptors that a process usually has
MAX_HEAD_BYTES = 1 << 16  # the way to a box 2 000 frames deep is 16 kB long
MAX_BODY_BYTES = 4096  # requests have some twenty
MAX_LENGTH_DIGITS = 9
REQUEST_S = 10.0  # from the connection to the end of the request
ACCEPT_BATCH = 64  # then those that wait have their turn
NO_DESCRIPTOR_S = 0.05
CHUNK_BYTES = 1 << 16
END_OF_HEAD = b"\r\n\r\n"

Peer = Any  # (address, port), for IPv6 with two more numbers
Serve = Callable[[socket.socket, Peer, bytes], bool]


class Refusal(Exception):
    """A request is refused, with a status and one line that says why."""

    def __init__(self, status: HTTPStatus, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason

    def answer(self) -> bytes:
        """Return the response."""
        body = f"flametap: {self.reason}\n".encode()
        head = [
            f"HTTP/1.1 {self.status.value} {self.status.phrase}",
            "Content-Type: text/plain; charset=utf-8",
            f"Content-Length: {len(body)}",
            "Cache-Control: no-store",
            "Connection: close",
            *(f"{name}: {value}" for name, value in HEADERS.items()),
        ]
        return "\r\n".join(head).encode() + END_OF_HEAD + body


def request_length(data: bytes | bytearray, searched: int = 0) -> int | None:
    """Return the length in bytes of the request that begins the data; None if its head goes on.

    Args:
        searched: length of the part at the beginning that is known not to hold the end of the head.

    Raises:
        Refusal: it is malformed or too long.
    """
    end = data.find(END_OF_HEAD, max(0, searched - len(END_OF_HEAD) + 1))
    if max(end, len(data) if end < 0 else 0) > MAX_HEAD_BYTES:
        if data.find(b"\r\n", 0, MAX_HEAD_BYTES) < 0:
            raise Refusal(HTTPStatus.REQUEST_URI_TOO_LONG, "the URL is too long")
        raise Refusal(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "the headers are too long")
    if end < 0:
        return None
    line, _, fields = bytes(data[: end + len(END_OF_HEAD)]).partition(b"\r\n")
    _check_request_line(line)
    try:
        headers = http.client.parse_headers(io.BytesIO(fields))
    except http.client.HTTPException:
        raise Refusal(
            HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "there are too many headers"
        ) from None
    if "Transfer-Encoding" in headers:
        raise Refusal(HTTPStatus.LENGTH_REQUIRED, "a body needs a Content-Length")
    lengths = set(headers.get_all("Content-Length", ["0"]))
    length = lengths.pop()
    if lengths or not length.isdecimal() or len(length) > MAX_LENGTH_DIGITS:
        raise Refusal(HTTPStatus.BAD_REQUEST, "the Content-Length is not a length")
    if int(length) > MAX_BODY_BYTES:
        raise Refusal(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "the body is too long")
    return end + len(END_OF_HEAD) + int(length)


def _check_request_line(line: bytes) -> None:
    words = line.split()
    if len(words) == 3 and words[1].startswith(b"/") and words[2].startswith(b"HTTP/1."):
        try:
            urlsplit(words[1].decode("utf-8"))
        except ValueError:  # not UTF-8, or no address ("//[")
            pass
        else:
            return
    raise Refusal(HTTPStatus.BAD_REQUEST, "this is not a request of HTTP/1.1")


class _Waiting:
    """A connection without a complete request, or with an answer that may still be on its way."""

    def __init__(self, connection: socket.socket, peer: Peer) -> None:
        self.connection = connection
        self.peer = peer
        self.deadline_s = time.monotonic() + REQUEST_S
        self.data = bytearray()
        self.length: int | None = None  # of the request, once known
        self.is_refused = False


class Gate:
    """Accept connections until it is closed.

    Args:
        listener: a listening socket; remains the caller's.
        is_known: return True if a request contains a secret.
        serve: take over a connection with its request, or return False if there are too many.
    """

    def __init__(
        self, listener: socket.socket, is_known: Callable[[bytes], bool], serve: Serve
    ) -> None:
        self._listener = listener
        self._listener.setblocking(False)
        self._is_known = is_known
        self._serve = serve
        self._waiting: OrderedDict[socket.socket, _Waiting] = OrderedDict()  # the oldest first
        self._selector = selectors.DefaultSelector()
        self._bell, self._heard = socket.socketpair()
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._selector.register(self._heard, selectors.EVENT_READ)
        self._is_closing = False
        self._thread = threading.Thread(target=self._run, name="flametap-web", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop accepting, and close the connections that wait here. Safe to call twice."""
        if self._is_closing:
            return
        self._is_closing = True
        self._bell.send(b"!")
        self._thread.join()
        for waiting in list(self._waiting.values()):
            self._drop(waiting)
        self._selector.close()
        self._bell.close()
        self._heard.close()

    def _run(self) -> None:
        while not self._is_closing:
            oldest = self._oldest()
            timeout_s = None if oldest is None else max(0.0, oldest.deadline_s - time.monotonic())
            for key, _ in self._selector.select(timeout_s):
                if key.fileobj is self._listener:
                    self._accept()
                elif key.fileobj in self._waiting:  # else closed a moment ago
                    self._read(key.data)
            self._expire()

    def _accept(self) -> None:
        for _ in range(ACCEPT_BATCH):
            try:
                connection, peer = self._listener.accept()
            except BlockingIOError:
                return
            except OSError:  # no descriptor left, or the client has gone already
                if not self._drop_oldest():
                    time.sleep(NO_DESCRIPTOR_S)
                return
            if len(self._waiting) >= MAX_WAITING:
                self._drop_oldest()
            connection.setblocking(False)
            waiting = _Waiting(connection, peer)
            self._waiting[connection] = waiting
            self._selector.register(connection, selectors.EVENT_READ, waiting)
            self._read(waiting)  # mostly, the request is there already

    def _read(self, waiting: _Waiting) -> None:
        try:
            data = waiting.connection.recv(CHUNK_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._drop(waiting)
        elif not waiting.is_refused:
            searched = len(waiting.data)
            waiting.data += data
            try:
                self._check(waiting, searched)
            except Refusal as refusal:
                self._refuse(waiting, refusal)

    def _check(self, waiting: _Waiting, searched: int) -> None:
        """Pass the request on if it is complete.

        Raises:
            Refusal: it is malformed, too long, or without a secret.
        """
        if waiting.length is None:
            waiting.length = request_length(waiting.data, searched)
        if waiting.length is None or len(waiting.data) < waiting.length:
            return
        request = bytes(waiting.data[: waiting.length])
        if not self._is_known(request):
            raise Refusal(HTTPStatus.FORBIDDEN, HOW_TO_ENTER)
        self._forget(waiting)
        if not self._serve(waiting.connection, waiting.peer, request):
            self._waiting[waiting.connection] = waiting
            self._selector.register(waiting.connection, selectors.EVENT_READ, waiting)
            raise Refusal(HTTPStatus.SERVICE_UNAVAILABLE, "too many pages are open")

    def _refuse(self, waiting: _Waiting, refusal: Refusal) -> None:
        """Answer, and wait until the client closes: if we did, it might lose the answer."""
        waiting.is_refused = True
        waiting.data.clear()
        try:
            waiting.connection.send(refusal.answer())
            waiting.connection.shutdown(socket.SHUT_WR)
        except OSError:
            self._drop(waiting)

    def _expire(self) -> None:
        now_s = time.monotonic()
        while (oldest := self._oldest()) is not None:
            if oldest.deadline_s > now_s:
                return
            if oldest.data:  # browsers open some connections in advance, and send nothing
                late = Refusal(HTTPStatus.REQUEST_TIMEOUT, "the request took too long")
                self._refuse(oldest, late)
            if oldest.connection in self._waiting:
                self._drop(oldest)

    def _oldest(self) -> _Waiting | None:
        return next(iter(self._waiting.values()), None)

    def _drop_oldest(self) -> bool:
        oldest = self._oldest()
        if oldest is None:
            return False
        self._drop(oldest)
        return True

    def _drop(self, waiting: _Waiting) -> None:
        self._forget(waiting)
        waiting.connection.close()

    def _forget(self, waiting: _Waiting) -> None:
        del self._waiting[waiting.connection]
        self._selector.unregister(waiting.connection)
