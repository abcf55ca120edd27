"""What a recording writes, on its way to the other side, which may be gone for a while.

Bytes are kept until the other side has taken them. If too many wait, the recorder is asked to
pause. So nothing that was written is lost.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from .messages import DATA_BYTES, OFFSET, Line

FULL_BYTES, LOW_BYTES = 64 << 20, 32 << 20


class Outgoing:
    """A file that is written here and read there. One thread writes; any thread may call the rest.

    Args:
        on_full: called with True when too much is waiting, and with False when it is not any more.

    Attributes:
        is_full: too much is waiting.
        closed: nothing more is written.
    """

    def __init__(self, on_full: Callable[[bool], None] = lambda is_full: None) -> None:
        self._on_full = on_full
        self._data = bytearray()  # that has not been taken
        self._first = 0  # its position in the file
        self._sent = 0  # up to there, on the connection that there is
        self._line: Line | None = None
        self.is_full = False
        self.closed = False
        self._changed = threading.Condition()
        self._sender = threading.Thread(target=self._send_all, name="flametap-send", daemon=True)
        self._sender.start()

    def write(self, data: bytes) -> int:
        """Keep bytes until they are taken."""
        with self._changed:
            self._data += data
            self._changed.notify_all()
        self._look()
        return len(data)

    def flush(self) -> None:
        """Do nothing: bytes are sent at once."""

    def close(self) -> None:
        """Take note that nothing more is written. Idempotent."""
        with self._changed:
            self.closed = True
            self._changed.notify_all()

    def connect(self, line: Line, offset: int) -> bool:
        """Send all from a position on; return False if that has been forgotten."""
        with self._changed:
            if not self._first <= offset <= self.n_bytes:
                return False
            self._forget(offset)
            self._sent, self._line = offset, line
            self._changed.notify_all()
        return True

    def disconnect(self, line: Line) -> None:
        """Send no more there."""
        with self._changed:
            if self._line is line:
                self._line = None

    def taken(self, offset: int) -> None:
        """Forget what the other side has taken."""
        with self._changed:
            self._forget(min(offset, self._sent))
            self._changed.notify_all()
        self._look()

    @property
    def n_bytes(self) -> int:
        """How many bytes have been written."""
        return self._first + len(self._data)

    def _forget(self, offset: int) -> None:
        if offset > self._first:
            del self._data[: offset - self._first]
            self._first = offset

    def _look(self) -> None:
        with self._changed:
            was_full = self.is_full
            self.is_full = len(self._data) > (LOW_BYTES if was_full else FULL_BYTES)
        if self.is_full != was_full:
            self._on_full(self.is_full)

    def _next(self) -> tuple[Line, int, bytes] | None:
        """Wait for what is to be sent next; return None at the end."""
        with self._changed:
            while not (self._line and self._sent < self.n_bytes):
                if self.closed and not self._data:
                    return None
                self._changed.wait()
            offset = self._sent
            at = offset - self._first
            data = bytes(self._data[at : at + DATA_BYTES])
            self._sent += len(data)
            return self._line, offset, data

    def _send_all(self) -> None:
        while (found := self._next()) is not None:
            line, offset, data = found
            try:
                line.send("DATA", OFFSET.pack(offset) + data)
            except OSError:
                self.disconnect(line)
