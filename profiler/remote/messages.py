"""Messages between two flametaps: a kind of four letters, a length, and bytes.

What comes may be of anybody: lengths are checked before memory is taken, and facts (JSON) are an
object or nothing.
"""

from __future__ import annotations

import os
import select
import struct
import threading
import time
from typing import Any, NamedTuple

import orjson

# A login may print its banner first: what comes before this is no message.
MAGIC = b"\x93flametap serve\r\n\x1a"
PROTOCOL = 1
MAX_BANNER_BYTES = 1 << 16
MAX_MESSAGE_BYTES = 1 << 20
DATA_BYTES = 1 << 16  # of a recording, in one message
OFFSET = struct.Struct("<Q")
_HEAD = struct.Struct("<4sI")


class LineError(Exception):
    """What comes is no message of flametap's. The message says what it is instead."""


class Message(NamedTuple):
    """One message."""

    kind: str
    data: bytes = b""

    @property
    def facts(self) -> dict[str, Any]:
        """The JSON object in it. Raises LineError."""
        try:
            found = orjson.loads(self.data)
        except orjson.JSONDecodeError:
            found = None
        if not isinstance(found, dict):
            raise LineError("a message without facts")
        return found


class Line:
    """Both directions of a connection. One thread receives; any thread may send.

    Args:
        read_fd: what the other side has sent.
        write_fd: to the other side.
        owner: of the two, which stay open as long as this is used.
    """

    def __init__(self, read_fd: int, write_fd: int, owner: object = None) -> None:
        self._read_fd, self._write_fd, self._owner = read_fd, write_fd, owner
        self._data = bytearray()
        self._sending = threading.Lock()
        self._is_closed = False

    def begin(self) -> None:
        """Send what comes before the first message. Raises OSError."""
        self._write(MAGIC)

    def send(self, kind: str, data: bytes = b"") -> None:
        """Send a message. Raises OSError."""
        with self._sending:
            self._write(_HEAD.pack(kind.encode("ascii"), len(data)) + data)

    def send_facts(self, kind: str, **facts: Any) -> None:
        """Send a message with a JSON object. Raises OSError."""
        self.send(kind, orjson.dumps(facts))

    def wait_for_begin(self, timeout_s: float) -> bytes:
        """Read up to the first message, and return what was printed before it.

        Raises:
            TimeoutError: it does not come.
            EOFError: the connection has ended; its argument is what was printed.
            LineError: so much was printed that this is no flametap.
        """
        until_s = time.monotonic() + timeout_s
        while (at := self._data.find(MAGIC)) < 0:
            if len(self._data) > MAX_BANNER_BYTES:
                raise LineError(f"{len(self._data):,} bytes that are no message of flametap")
            if not self._read(until_s - time.monotonic()):
                raise EOFError(bytes(self._data))
        printed = bytes(self._data[:at])
        del self._data[: at + len(MAGIC)]
        return printed

    def receive(self, timeout_s: float | None = None) -> Message | None:
        """Return the next message; None at the end of the connection.

        Raises:
            TimeoutError: nothing has come for so long.
            LineError: what comes is no message.
        """
        while True:
            found = self._next()
            if found is not None:
                return found
            if not self._read(timeout_s):
                return None

    def unread(self) -> bytes:
        """Return, once, what has come behind the last message."""
        found = bytes(self._data)
        self._data.clear()
        return found

    def _next(self) -> Message | None:
        if len(self._data) < _HEAD.size:
            return None
        kind, n_bytes = _HEAD.unpack_from(self._data)
        if n_bytes > MAX_MESSAGE_BYTES or not kind.isalpha():
            raise LineError("something else than messages of flametap")
        end = _HEAD.size + n_bytes
        if len(self._data) < end:
            return None
        found = Message(kind.decode("ascii", "replace"), bytes(self._data[_HEAD.size : end]))
        del self._data[:end]
        return found

    def _read(self, timeout_s: float | None) -> bool:
        if timeout_s is not None and not _is_ready(self._read_fd, max(0.0, timeout_s)):
            raise TimeoutError
        try:
            data = os.read(self._read_fd, DATA_BYTES)
        except OSError:  # reset
            return False
        self._data += data
        return bool(data)

    def end(self, timeout_s: float) -> bool:
        """Send no more, also not by numbers that are of other files soon.

        Returns False if a message that is being sent does not end in time.
        """
        if not self._sending.acquire(timeout=timeout_s):
            return False
        self._is_closed = True
        self._sending.release()
        return True

    def _write(self, data: bytes) -> None:
        if self._is_closed:
            raise BrokenPipeError
        write_all(self._write_fd, data)


def write_all(fd: int, data: bytes) -> None:
    """Write all bytes. Raises OSError."""
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def _is_ready(fd: int, timeout_s: float) -> bool:
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    return bool(poll.poll(round(timeout_s * 1000)))
