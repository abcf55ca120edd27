"""The side where the program runs: a recording that outlasts the connection it was asked for by.

It is a process of its own. The first connection is handed to it; later ones come by a socket
without a name in any folder, which only processes of the same user on the same machine reach, and
which knows no port. Nobody connected for ``ALONE_S``: the recording ends, and the program is left.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time
from collections.abc import Callable
from typing import Any, Protocol

from ..errors import FlametapError
from ..linux.peer import peer_of
from .messages import Line, LineError, Message
from .outgoing import Outgoing

ALONE_S = 60.0
SILENT_S = 30.0  # a connection that says nothing for so long is gone: one speaks each second
TICK_S = 1.0
LOOK_S = 0.1


class Recorder(Protocol):
    """What records here."""

    def find(self, tell: Callable[[str, dict[str, Any]], None]) -> dict[str, Any]:
        """Find what is to be recorded, and return what it is. Raises FlametapError."""
        ...

    def begin(self, file: Outgoing) -> None:
        """Begin. Raises FlametapError."""
        ...

    def wait(self, timeout_s: float) -> bool:
        """Wait for the end; return False after a timeout."""
        ...

    def finish(self) -> None:
        """End, and write all that is left. Raises FlametapError."""
        ...

    def close(self) -> None:
        """Leave the program, whatever has happened. Idempotent."""
        ...

    def pause(self, paused: bool) -> None:
        """Take no samples, or take them again."""
        ...

    def control(self, facts: dict[str, Any]) -> dict[str, Any]:
        """Do what the other side asks for; return what it wants to know. Raises FlametapError."""
        ...


def address(session: str) -> str:
    """Return the address of the socket of a session (unix(7): abstract)."""
    return f"\0flametap-{session}"


class Session:
    """See the module.

    Args:
        connection: of the one who asked.
        line: its messages.
        name: the number of the session.
        recorder: records.
    """

    def __init__(
        self, connection: socket.socket, line: Line, name: str, recorder: Recorder
    ) -> None:
        self._recorder = recorder
        self._file = Outgoing(self._take_full)
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(address(name))
        self._listener.listen(4)
        self._connection: socket.socket | None = None
        self._line: Line | None = None
        self._alone_s = time.monotonic()
        self._told: list[tuple[str, dict[str, Any]]] = []  # for who comes later, too
        self._is_paused = False  # the user wants it
        self._starting, self._stopping = threading.Event(), threading.Event()
        self._leaving = threading.Event()  # the other side has all
        self._lock = threading.Lock()
        self._telling = threading.Lock()  # messages go out in their order
        self._pausing = threading.Lock()
        self._take(connection, line, 0)

    def run(self) -> None:
        """Record until the program ends, the other side says so, or nobody is there any more."""
        threading.Thread(target=self._accept, name="flametap-accept", daemon=True).start()
        threading.Thread(target=self._tick, name="flametap-tick", daemon=True).start()
        self._try(self._record)
        self._try(self._recorder.close)
        self._file.close()
        self.tell("DONE", {"n_bytes": self._file.n_bytes})
        while not self._leaving.wait(TICK_S) and not self._is_alone:
            pass

    def _record(self) -> None:
        self.tell("TARG", self._recorder.find(self.tell))
        while not self._starting.wait(LOOK_S) and not self._is_over():
            pass
        if self._is_over():
            return
        self._recorder.begin(self._file)
        self.tell("BEGN", {})
        while not self._recorder.wait(LOOK_S) and not self._is_over():
            pass
        self._recorder.finish()

    def _try(self, work: Callable[[], None]) -> None:
        """Do something, and tell why if it cannot be done."""
        try:
            work()
        except FlametapError as error:
            facts = {"message": error.message, "hint": error.hint, "code": error.exit_code}
            self.tell("FAIL", facts)
        except Exception as error:
            message = f"internal error: {type(error).__name__}: {error}"
            self.tell("FAIL", {"message": message, "hint": "please report it", "code": 1})

    def tell(self, kind: str, facts: dict[str, Any]) -> None:
        """Tell the other side, whenever it is there."""
        with self._telling:
            facts = {**facts, "n": len(self._told)}
            self._told.append((kind, facts))
            line = self._line
            if line is not None:
                self._send(line, kind, facts)

    def _is_over(self) -> bool:
        return self._stopping.is_set() or self._is_alone

    @property
    def _is_alone(self) -> bool:
        with self._lock:
            return self._line is None and time.monotonic() - self._alone_s > ALONE_S

    # ------------------------------------------------------------------ pauses

    def _take_full(self, _is_full: bool) -> None:
        """Pause for a connection that is too slow, in another thread: the writer goes on."""
        threading.Thread(target=self._pause_if_full, daemon=True).start()

    def _pause_if_full(self) -> None:
        with self._pausing:
            is_full = self._file.is_full
            self.tell("FULL", {"is_full": is_full})
            self._recorder.pause(is_full or self._is_paused)

    def _pause(self, is_paused: bool) -> None:
        with self._pausing:
            self._is_paused = is_paused
            self._recorder.pause(self._file.is_full or is_paused)

    # ------------------------------------------------------------------ connections

    def _accept(self) -> None:
        while True:
            connection, _ = self._listener.accept()
            if peer_of(connection).uid != os.geteuid():
                connection.close()
                continue
            threading.Thread(target=self._come_back, args=(connection,), daemon=True).start()

    def _come_back(self, connection: socket.socket) -> None:
        line = Line(connection.fileno(), connection.fileno(), connection)
        offset: Any = None
        try:
            message = line.receive(SILENT_S)
            if message is not None and message.kind == "BACK":
                offset = message.facts.get("offset")
        except (LineError, TimeoutError):
            pass
        if not isinstance(offset, int) or not self._take(connection, line, offset):
            with contextlib.suppress(OSError):
                line.send("GONE")
            connection.close()

    def _take(self, connection: socket.socket, line: Line, offset: int) -> bool:
        """Go on with a connection, and with no other one."""
        with self._lock:
            if self._connection is not None:
                _hang_up(self._connection)
        with self._telling:
            if not self._file.connect(line, offset):
                return False
            with self._lock:
                self._connection, self._line = connection, line
            for kind, facts in self._told:
                self._send(line, kind, facts)
        threading.Thread(target=self._listen, args=(line,), daemon=True).start()
        return True

    def _listen(self, line: Line) -> None:
        try:
            with contextlib.suppress(TimeoutError, LineError, OSError):
                while (message := line.receive(SILENT_S)) is not None:
                    self._answer(line, message)
        finally:
            self._leave(line)

    def _leave(self, line: Line) -> None:
        self._file.disconnect(line)
        with self._lock:
            if self._line is line:
                self._line, self._alone_s = None, time.monotonic()
                if self._connection is not None:  # a write that is blocked there ends
                    _hang_up(self._connection)

    def _answer(self, line: Line, message: Message) -> None:
        if message.kind == "TAKE":
            offset = message.facts.get("offset")
            if isinstance(offset, int):
                self._file.taken(offset)
        elif message.kind == "PING":
            now = {"time_ns": time.time_ns(), "monotonic_ns": time.monotonic_ns()}
            self._send(line, "PONG", {"sent": message.facts.get("sent"), **now})
        elif message.kind == "STRT":
            self._starting.set()
        elif message.kind == "STOP":
            self._stopping.set()
        elif message.kind == "BYES":
            self._leaving.set()
        elif message.kind == "CTRL":
            self._send(line, "ANSW", self._controlled(message.facts))

    def _controlled(self, facts: dict[str, Any]) -> dict[str, Any]:
        number = facts.get("number")
        try:
            if isinstance(facts.get("paused"), bool):
                self._pause(facts["paused"])
            return {"number": number, **self._recorder.control(facts)}
        except FlametapError as error:
            return {"number": number, "message": error.message, "hint": error.hint}
        except Exception as error:
            return {"number": number, "message": f"{type(error).__name__}: {error}", "hint": ""}

    def _send(self, line: Line, kind: str, facts: dict[str, Any]) -> None:
        try:
            line.send_facts(kind, **facts)
        except OSError:
            self._leave(line)

    def _tick(self) -> None:
        while True:
            time.sleep(TICK_S)
            with self._lock:
                line = self._line
            if line is not None:
                self._send(line, "TICK", {})


def _hang_up(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
