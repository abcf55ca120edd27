"""The side where somebody looks: the connection to a flametap elsewhere.

A command that the user names (``ssh host``) gives its standard input and output. When it ends amid
a recording, it is started again for ``ALONE_S``, and goes on where it was.
"""

from __future__ import annotations

import contextlib
import secrets
import shlex
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable
from typing import IO, Any

from ..errors import FlametapError, InputError, UsageError
from ..version import version
from .messages import PROTOCOL, Line, LineError, Message
from .session import ALONE_S

HELLO_S = 60.0  # a login may ask for a second factor
QUIET_S = 20.0  # without a word the connection is taken for broken: there is one each second
RETRY_S = 1.0
COMMAND = ("flametap", "serve", "--stdio")
_NOT_FOUND = 127  # sh(1)
_MOST_SHOWN = 300  # characters of what a command has printed
_END_S = 2.0


class Hello:
    """What the other side says of itself, checked."""

    def __init__(self, facts: dict[str, Any]) -> None:
        self.protocol = facts.get("protocol")
        texts = {name: str(facts.get(name, "")) for name in ("version", "host", "user", "machine")}
        self.version, self.host = texts["version"], texts["host"]
        self.user, self.machine = texts["user"], texts["machine"]


class Connection:
    """One run of the command.

    Args:
        via: the command.

    Attributes:
        line: to the other side.
        hello: what it says of itself.

    Raises:
        FlametapError: there is no flametap at its other end, or one that we do not understand.
    """

    def __init__(self, via: str) -> None:
        self._via = via
        # What the command says is for the user: it may ask for a password.
        self._errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - closed by ``close``
        try:
            self._child = subprocess.Popen(
                [*words_of(via), *COMMAND],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                preexec_fn=_ignore_ctrl_c,
            )
        except OSError as error:
            self._errors.close()
            raise UsageError(
                f"cannot run --via {via}: {error.strerror or error}", "name a command: 'ssh host'"
            ) from error
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        self.line = Line(self._child.stdout.fileno(), self._child.stdin.fileno(), self._child)
        try:
            self.hello = self._greet()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """End the command. Idempotent."""
        while not self.line.end(_END_S):
            self._child.kill()  # it does not take what is sent
        for pipe in (self._child.stdin, self._child.stdout):
            with contextlib.suppress(OSError):
                assert pipe is not None
                pipe.close()
        try:
            self._child.wait(_END_S)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait()
        self._errors.close()

    def _greet(self) -> Hello:
        try:
            self.line.wait_for_begin(HELLO_S)
            message = self.line.receive(HELLO_S)
        except TimeoutError:
            why = f"says nothing for {HELLO_S:.0f} s"
            raise InputError(f"'{self._via}' {why}", "try the command by itself") from None
        except EOFError as error:
            raise self._no_flametap(error.args[0]) from None
        except LineError as error:
            raise InputError(f"'{self._via}' sends {error}", _TRY.format(self._via)) from None
        if message is None or message.kind != "HELO":
            raise self._no_flametap(b"")
        hello = Hello(message.facts)
        if hello.protocol != PROTOCOL:
            raise InputError(
                f"flametap {hello.version} at '{self._via}' speaks another language than"
                f" {version()} here",
                "install the same version on both sides",
            )
        return hello

    def _no_flametap(self, printed: bytes) -> FlametapError:
        code = self._child.wait()
        self._errors.seek(0)
        said = self._errors.read()[-_MOST_SHOWN:] or printed[-_MOST_SHOWN:]
        lines = said.decode("utf-8", "replace").strip().splitlines()
        last = f": {lines[-1].strip()}" if lines else ""
        if code == _NOT_FOUND:
            return InputError(
                f"there is no flametap at '{self._via}'{last}",
                "install it there, or let --install copy this one",
            )
        return InputError(f"'{self._via}' ended with {code}{last}", _TRY.format(self._via))


def _ignore_ctrl_c() -> None:
    """Ctrl-C in the terminal is for us: the recording has to be ended and fetched first."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


_TRY = "try it by itself: {} flametap --version"


def words_of(via: str) -> list[str]:
    """Return the words of a command. Raises UsageError."""
    try:
        words = shlex.split(via)
    except ValueError as error:
        raise UsageError(f"--via {via}: {error}", "quote it as for a shell") from error
    if not words:
        raise UsageError("--via names no command", "name one: 'ssh host'")
    return words


class Link:
    """A recording elsewhere: it is asked for, and what it tells is passed on.

    Args:
        via: the command that leads there.
        wish: what is to be recorded.
        take: called with each message, by one thread.
        position: how many bytes of the recording have come.
        say: called with what the user should know.

    Attributes:
        hello: what the other side says of itself.
        is_lost: the connection has ended, and does not come back.
    """

    def __init__(
        self,
        via: str,
        wish: dict[str, Any],
        take: Callable[[Message], None],
        position: Callable[[], int],
        say: Callable[[str], None],
    ) -> None:
        self._via, self._take, self._position, self._say = via, take, position, say
        self._session = secrets.token_hex(16)
        self._connection = Connection(via)
        self.hello = self._connection.hello
        self._send("RECD", {**wish, "session": self._session})
        self._is_done = threading.Event()
        self.is_lost = False
        self._n_told = 0
        self._thread = threading.Thread(target=self._run, name="flametap-link", daemon=True)
        self._pinging = threading.Thread(target=self._ping, name="flametap-ping", daemon=True)

    def start(self) -> None:
        """Begin to pass on what comes."""
        self._thread.start()
        self._pinging.start()

    def send(self, kind: str, **facts: Any) -> None:
        """Send a message; it is lost if the connection is."""
        self._send(kind, facts)

    def close(self) -> None:
        """End the connection; what it recorded for has ended, too. Idempotent."""
        self._is_done.set()
        self._connection.close()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join()

    def done(self) -> None:
        """Take note that all has come."""
        self._is_done.set()

    def _send(self, kind: str, facts: dict[str, Any]) -> None:
        with contextlib.suppress(OSError, ValueError):  # closed: told by who receives
            self._connection.line.send_facts(kind, **facts)

    def _run(self) -> None:
        while not self._is_done.is_set():
            why = self._listen()
            if self._is_done.is_set() or not self._come_back(why):
                break
        if not self._is_done.is_set():
            self.is_lost = True
            self._take(Message("LOST"))

    def _listen(self) -> str:
        """Pass on what comes; return why nothing more does."""
        line = self._connection.line
        try:
            while not self._is_done.is_set():
                message = line.receive(QUIET_S)
                if message is None:
                    return "has ended"
                if message.kind == "GONE":
                    return "the recording there has ended"
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
        until_s = time.monotonic() + ALONE_S
        while time.monotonic() < until_s and not self._is_done.wait(RETRY_S):
            try:
                self._connection = Connection(self._via)
            except FlametapError:
                continue
            self._send("BACK", {"session": self._session, "offset": self._position()})
            self._say(f"connected to {self.hello.host} again")
            return True
        return False

    def _ping(self) -> None:
        while not self._is_done.wait(1.0):
            self._send("PING", {"sent": time.monotonic_ns()})
            self._send("TAKE", {"offset": self._position()})


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
                return code if isinstance(code, int) else 1
            write(message.kind, message.data)
    except LineError as error:
        raise InputError(f"'{via}' sends {error}", "try again") from error
    finally:
        connection.close()
    raise InputError(f"the connection by '{via}' has ended", "try again")
