"""One run of the command that leads to a flametap elsewhere."""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import subprocess
import threading
import time
from collections.abc import Callable
from typing import Any

from ..errors import FlametapError, InputError, UsageError
from ..version import version
from .messages import PROTOCOL, Line, LineError

HELLO_S = 60.0  # a login may ask for a second factor
LOOK_S = 0.5  # whether the user still waits
COMMAND = ("flametap", "serve", "--stdio")
# Ctrl-C in the terminal, and its end, are for us: the rest has to be fetched first.
_SHIELD = ("sh", "-c", 'trap "" INT HUP; exec "$@"', "sh")
_NOT_FOUND = 127  # sh(1)
_MOST_SHOWN = 300  # bytes of what a command has printed
_END_S = 2.0
_TRY = "try it by itself: {} flametap --version"


class Hello:
    """What the other side says of itself, checked."""

    def __init__(self, facts: dict[str, Any]) -> None:
        self.protocol = facts.get("protocol")
        self.version, self.host = str(facts.get("version", "")), str(facts.get("host") or "?")
        self.boot = str(facts.get("boot") or "")  # one clock for all of one boot


class Connection:
    """See the module.

    Args:
        via: the command.
        is_wanted: asked while it does not answer; False gives up.

    Attributes:
        line: to the other side.
        hello: what it says of itself.

    Raises:
        FlametapError: there is no flametap at its other end, or one that we do not understand.
    """

    def __init__(self, via: str, is_wanted: Callable[[], bool] = lambda: True) -> None:
        self._via, self._is_wanted = via, is_wanted
        words = words_of(via)
        if shutil.which(words[0]) is None:
            raise UsageError(f"cannot run --via {via}: no such command", "name one: 'ssh host'")
        try:
            self._child = subprocess.Popen(
                [*_SHIELD, *words, *COMMAND],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )
        except OSError as error:
            raise InputError(f"cannot run --via {via}: {error.strerror or error}", "") from error
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        self._said = b""  # the end of what the command has said
        self._reader = threading.Thread(target=self._read_errors, daemon=True)
        self._reader.start()
        self.line = Line(self._child.stdout.fileno(), self._child.stdin.fileno(), self._child)
        try:
            self.hello = self._greet()
        except BaseException:
            self.close()
            raise

    def hang_up(self) -> None:
        """End the command; what it has sent can still be received. Idempotent."""
        while not self.line.end(_END_S):
            self._child.kill()  # it does not take what is sent
        assert self._child.stdin is not None
        with contextlib.suppress(OSError):
            self._child.stdin.close()
        try:
            self._child.wait(_END_S)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait()

    def close(self) -> None:
        """End the command; nobody receives any more. Idempotent."""
        self.hang_up()
        self._reader.join(_END_S)  # another process may have its end of the pipe
        assert self._child.stdout is not None
        with contextlib.suppress(OSError):
            self._child.stdout.close()

    def _read_errors(self) -> None:
        pipe = self._child.stderr
        assert pipe is not None
        with pipe:
            while data := os.read(pipe.fileno(), 1 << 12):
                self._said = (self._said + data)[-_MOST_SHOWN:]

    def _greet(self) -> Hello:
        self._wait_for_begin()
        try:
            message = self.line.receive(HELLO_S)
            if message is None or message.kind != "HELO":
                raise LineError("something else than a greeting")
            hello = Hello(message.facts)
        except TimeoutError:
            raise self._silent() from None
        except LineError as error:
            raise self._nonsense(error) from None
        if hello.protocol != PROTOCOL:
            raise InputError(
                f"flametap {hello.version} at '{self._via}' speaks another language than"
                f" {version()} here",
                "install the same version on both sides",
            )
        return hello

    def _wait_for_begin(self) -> None:
        until_s = time.monotonic() + HELLO_S
        while True:
            try:
                self.line.wait_for_begin(LOOK_S)
                return
            except TimeoutError:
                if not self._is_wanted():
                    raise UsageError("it was interrupted", "") from None
                if time.monotonic() > until_s:
                    raise self._silent() from None
            except EOFError as error:
                raise self._no_flametap(error.args[0]) from None
            except LineError as error:
                raise self._nonsense(error) from None

    def _silent(self) -> FlametapError:
        why = f"'{self._via}' says nothing for {HELLO_S:.0f} s"
        return InputError(why, "try the command by itself")

    def _nonsense(self, error: LineError) -> FlametapError:
        return InputError(f"'{self._via}' sends {error}", _TRY.format(self._via))

    def _no_flametap(self, printed: bytes) -> FlametapError:
        self.hang_up()
        code = self._child.returncode
        self._reader.join(_END_S)
        said = self._said or printed[-_MOST_SHOWN:]
        lines = said.decode("utf-8", "replace").strip().splitlines()
        last = f": {lines[-1].strip()}" if lines else ""
        if code == _NOT_FOUND:
            hint = "install flametap there, where a login finds it"
            return InputError(f"there is no flametap at '{self._via}'{last}", hint)
        return InputError(f"'{self._via}' ended with {code}{last}", _TRY.format(self._via))


def words_of(via: str) -> list[str]:
    """Return the words of a command. Raises UsageError."""
    try:
        words = shlex.split(via)
    except ValueError as error:
        raise UsageError(f"--via {via}: {error}", "quote it as for a shell") from error
    if not words:
        raise UsageError("--via names no command", "name one: 'ssh host'")
    return words
