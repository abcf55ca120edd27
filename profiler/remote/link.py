"""The side where somebody looks: the connection to a recording elsewhere.

When the command that leads there ends amid a recording, it is started again for ``ALONE_S``, and
goes on where it was.
"""

from __future__ import annotations

import contextlib
import secrets
import threading
import time
from collections.abc import Callable
from typing import Any

from ..errors import FlametapError, InputError
from .connection import Connection
from .messages import LineError, Message
from .session import ALONE_S

QUIET_S = 20.0  # without a word the connection is taken for broken: there is one each second
RETRY_S = 1.0
_END_S = 2.0


class Link:
    """A recording elsewhere: it is asked for, and what it tells is passed on.

    Args:
        via: the command that leads there.
        wish: what is to be recorded.
        take: called with each message, by one thread; with "LOST" when no more will come.
        position: how many bytes of the recording have come.
        say: called with what the user should know.
        is_wanted: asked while the other side does not answer; False gives up.

    Attributes:
        hello: what the other side says of itself.
    """

    def __init__(
        self,
        via: str,
        wish: dict[str, Any],
        take: Callable[[Message], None],
        position: Callable[[], int],
        say: Callable[[str], None],
        is_wanted: Callable[[], bool],
    ) -> None:
        self._via, self._take, self._position, self._say = via, take, position, say
        self._session = secrets.token_hex(16)
        self._connection = Connection(via, is_wanted)
        self.hello = self._connection.hello
        self._lasting: list[str] = []  # what a new connection has to be told again
        self._until_s = float("inf")  # so long a connection that broke is made again
        self._is_done = threading.Event()
        self._n_told = 0
        self._thread = threading.Thread(target=self._run, name="flametap-link", daemon=True)
        self._pinging = threading.Thread(target=self._ping, name="flametap-ping", daemon=True)
        self.send("RECD", **wish, session=self._session)

    def start(self) -> None:
        """Begin to pass on what comes."""
        self._thread.start()
        self._pinging.start()

    def send(self, kind: str, **facts: Any) -> None:
        """Send a message; it is lost if the connection is."""
        with contextlib.suppress(OSError, ValueError):  # closed: told by who receives
            self._connection.line.send_facts(kind, **facts)

    def insist(self, kind: str) -> None:
        """Send a message that is sent again on each later connection."""
        if kind not in self._lasting:
            self._lasting.append(kind)
        self.send(kind)

    def done(self) -> None:
        """Take note that all has come."""
        self._is_done.set()

    def close(self) -> None:
        """End the connection. Idempotent."""
        self._is_done.set()
        self._connection.hang_up()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join(_END_S)
        self._connection.close()

    def _run(self) -> None:
        try:
            why = self._listen()
            while why and not self._is_done.is_set() and self._come_back(why):
                why = self._listen()
        finally:
            if not self._is_done.is_set():
                self._take(Message("LOST"))

    def _listen(self) -> str:
        """Pass on what comes; return why nothing more does, "" if nothing ever will."""
        line = self._connection.line
        try:
            while not self._is_done.is_set():
                message = line.receive(QUIET_S)
                if message is None:
                    return "has ended"
                if message.kind == "GONE":
                    return ""
                self._until_s = float("inf")
                if self._is_new(message):
                    self._take(message)
        except TimeoutError:
            return f"says nothing for {QUIET_S:.0f} s"
        except (LineError, OSError, ValueError) as error:
            return f"sends {error}"
        except Exception as error:  # whatever it sends: the rest of the program goes on
            return f"sends what makes no sense: {type(error).__name__}"
        return ""

    def _is_new(self, message: Message) -> bool:
        """Tell whether it was not told on an earlier connection."""
        if message.kind in ("DATA", "PONG", "TICK", "ANSW"):
            return True
        number = message.facts.get("n")
        if not isinstance(number, int) or number < self._n_told:
            return False
        self._n_told = number + 1
        return True

    def _come_back(self, why: str) -> bool:
        """Connect again, and go on; return False if that cannot be."""
        self._say(f"the connection to {self.hello.host} {why}: connecting again")
        self._connection.close()
        self._until_s = min(self._until_s, time.monotonic() + ALONE_S)
        while time.monotonic() < self._until_s and not self._is_done.wait(RETRY_S):
            try:
                made = Connection(self._via, lambda: not self._is_done.is_set())
            except FlametapError:
                continue
            self._connection = made
            if self._is_done.is_set():
                made.close()
                return False
            self.send("BACK", session=self._session, offset=self._position())
            for kind in self._lasting:
                self.send(kind)
            return True
        return False

    def _ping(self) -> None:
        while not self._is_done.wait(1.0):
            self.send("PING", sent=time.monotonic_ns())
            self.send("TAKE", offset=self._position())


def run(via: str, arguments: list[str], columns: int, write: Callable[[str, bytes], None]) -> int:
    """Run a command of flametap elsewhere, and return its exit code.

    Args:
        via: the command that leads there.
        arguments: of flametap.
        columns: width of the terminal.
        write: called with "OUTS" or "ERRS", and what is printed there.

    Raises:
        FlametapError: it cannot be run, or the connection ends before it does.
    """
    connection = Connection(via)
    try:
        connection.line.send_facts("RUNS", arguments=arguments, columns=columns)
        while (message := connection.line.receive()) is not None:
            if message.kind == "EXIT":
                code = message.facts.get("code")
                code = code if isinstance(code, int) else 1
                return code if code >= 0 else 128 - code
            write(message.kind, message.data)
    except (LineError, OSError) as error:
        raise InputError(f"'{via}' sends {error}", "try again") from error
    finally:
        connection.close()
    raise InputError(f"the connection by '{via}' has ended", "try again")
