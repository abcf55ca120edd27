"""Read perf.data by the ``perf`` of this machine: what it prints goes to ``perf_script``."""

from __future__ import annotations

import contextlib
import io
import os
import select
import shlex
import shutil
import signal
import subprocess
import threading
from collections.abc import Generator
from typing import IO, Any

from ..errors import InputError
from ..recording.recording import Recording
from . import perf_script
from .builder import Builder
from .unpacked import lines_of

MAGIC = b"PERFILE2"
REMEDY = "perf script -i {} > out.perf-script"

_MAX_ERRORS = 1 << 14  # bytes: the last ones count
_MAX_REASON = 200  # characters
_SILENT_S = 600.0  # between two pieces of its output
_END_S = 30.0  # from the end of its output to its own
_ERRORS_S = 1.0  # from its own end to the end of its errors
_PIECE = 1 << 20


def can_read(path: str) -> bool:
    """Tell whether perf is here, and the file as perf has written it: not packed, and no pipe."""
    if not os.path.isfile(path):
        return False
    try:
        with open(path, "rb") as file:
            is_whole = file.read(len(MAGIC)) == MAGIC
    except OSError:
        return False
    return is_whole and shutil.which("perf") is not None


def read(path: str, builder: Builder) -> Recording:
    """Return the recording of a file.

    Raises:
        InputError: perf cannot read it, or what it prints makes no sense.
    """
    with contextlib.closing(_printed(path)) as lines:
        return perf_script.read(lines, builder, "perf.data")


def _printed(path: str) -> Generator[str, None, None]:
    """Yield the lines that perf prints. However this ends, perf has ended."""
    # A path from the root is no option, nor "-", which means the standard input.
    command = [shutil.which("perf") or "perf", "script", "-i", os.path.abspath(path)]
    try:
        # A session of its own, so that what perf has started can be ended with it.
        perf = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            start_new_session=True,
        )
    except OSError as error:
        raise _failed(path, f"it cannot be started ({error.strerror})") from error
    assert perf.stdout is not None
    assert perf.stderr is not None
    errors, is_silent = _Errors(perf.stderr), False
    try:
        yield from lines_of(io.BufferedReader(_Output(perf.stdout), _PIECE))
        code = perf.wait(_END_S)
    except _SilentError:
        code, is_silent = -signal.SIGKILL, True
    except subprocess.TimeoutExpired:
        code = -signal.SIGKILL
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(perf.pid, signal.SIGKILL)
        perf.wait()
        last = errors.last_line()
        perf.stdout.close()
    if is_silent:
        raise _failed(path, f"it has printed nothing for {_SILENT_S:g} s")
    if code:
        raise _failed(path, last or f"it ended with {code}")


class _SilentError(Exception):
    """Perf has printed nothing for too long."""


class _Output(io.RawIOBase):
    """What perf prints. Reading raises ``_SilentError``."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._poll = select.poll()
        self._poll.register(file, select.POLLIN)

    def readable(self) -> bool:
        """See ``io``."""
        return True

    def readinto(self, buffer: Any) -> int:
        """See ``io``."""
        if not self._poll.poll(_SILENT_S * 1000):
            raise _SilentError
        return os.readv(self._file.fileno(), [buffer])


class _Errors:
    """Reads what perf says of errors as it is said: a full pipe would stop perf."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._end = b""
        self._thread = threading.Thread(target=self._read, name="perf-errors", daemon=True)
        self._thread.start()

    def _read(self) -> None:
        with self._file:  # only here, as no other thread may close what is being read
            while piece := self._file.read(_MAX_ERRORS):
                self._end = (self._end + piece)[-_MAX_ERRORS:]

    def last_line(self) -> str:
        """Return the last line, when perf has ended. What it has started may keep the pipe."""
        self._thread.join(_ERRORS_S)
        lines = self._end.decode("utf-8", "replace").split("\n")
        last = next((each.strip() for each in reversed(lines) if each.strip()), "")
        return "".join(each if each.isprintable() else "?" for each in last)[:_MAX_REASON]


def _failed(path: str, why: str) -> InputError:
    remedy = REMEDY.format(shlex.quote(path))
    return InputError(f"perf cannot read {path}: {why}", f"try it: {remedy}")
