"""Start the process that reads debug information, send it requests, and kill it after a timeout.

The process is started for the first file and serves all later ones. After a crash or a timeout, the
next file gets a new process. It has a session of its own, so Ctrl-C in the terminal does not reach
it.

Source: socket(7) and unix(7) for packets with descriptors, setrlimit(2), memfd_create(2).
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from ...linux import procfs
from ...linux.helper_process import start as start_process
from ...recording.names.inline_chains import LinesError
from ..locate.open_file import OpenFile
from .job import Built, DebugJob
from .worker import MAX_MESSAGE_BYTES, MAX_NOTE

MAX_PAYLOAD_BYTES = 2 << 30
# .debug_info is read at 40 MB/s (libpython, 14 MB: 0.35 s). If it takes ten times as long, we
# assume that it will not end.
MIN_CPU_S = 20
CPU_S_PER_MB = 0.25
# The limit on wall time is for a process that does not run at all, such as one that reads from a
# file server that does not answer. It is generous: the process has a low priority, and the machine
# may be busy.
WALL_FACTOR = 10
MIN_MEMORY_BYTES = 2 << 30
_EXIT_TIMEOUT_S = 5.0


# Opens a file that the process asks for: its path, and the position of its root in the job.
Lend = Callable[[str, int], OpenFile]


class Worker:
    """A client of at most one process. One thread calls ``build``, any may call ``close``.

    Args:
        subject: what it reads, for messages.

    Attributes:
        is_awaited: somebody waits for what is built from now on.
    """

    def __init__(self, subject: str = "its debug information") -> None:
        self._subject = subject
        self._process: subprocess.Popen[bytes] | None = None
        self._connection: socket.socket | None = None
        self._lock = threading.Lock()
        self._closed = False
        self.is_awaited = False

    def hurry(self) -> None:
        """Somebody waits: what is being built goes on at a normal priority, where we may say so."""
        if self.is_awaited:
            return
        self.is_awaited = True
        with self._lock, contextlib.suppress(OSError):
            if self._process is not None:
                own = os.getpriority(os.PRIO_PROCESS, 0)
                for tid in procfs.list_tasks(self._process.pid):
                    os.setpriority(os.PRIO_PROCESS, tid, own)

    def build(
        self,
        job: DebugJob,
        files: Sequence[int],
        debug_info_bytes: int,
        lend: Lend | None = None,
    ) -> Built:
        """Have the process build the result of a job, and return it.

        Args:
            job: the request.
            files: an open descriptor for each of the job's ``OPENED`` fields that is not empty.
            debug_info_bytes: size of the debug information, for the time limit.
            lend: opens the files that the process asks for; none by default. It decides whether a
                file may be opened: a hostile file may have taken over the process.

        Raises:
            LinesError: there is no result; the message gives the reason.
        """
        cpu_s = MIN_CPU_S + int(debug_info_bytes / 1e6 * CPU_S_PER_MB)
        request = {
            "job": job.to_json(),
            "cpu_s": cpu_s,
            "memory_bytes": _memory_bytes(),
            "is_awaited": self.is_awaited,
        }
        connection = self._connect()
        try:
            connection.settimeout(cpu_s * WALL_FACTOR)
            socket.send_fds(connection, [json.dumps(request).encode()], list(files))
            end_s = time.monotonic() + cpu_s * WALL_FACTOR
            while True:
                answer, received, _, _ = socket.recv_fds(connection, MAX_MESSAGE_BYTES, 1)
                asked = _asked(answer)
                if asked is None:
                    break
                for descriptor in received:
                    os.close(descriptor)
                _lend(connection, lend, *asked)
                if time.monotonic() > end_s:
                    raise TimeoutError
                connection.settimeout(max(end_s - time.monotonic(), 0.001))
        except TimeoutError:
            self._end()
            raise LinesError(self._too_slow(cpu_s * WALL_FACTOR)) from None
        except OSError as error:
            raise LinesError(self._death(cpu_s)) from error
        try:
            if not answer:
                raise LinesError(self._death(cpu_s))
            said = parse_answer(answer)
            if not received:
                raise LinesError(f"{self._subject} gave no result")
            return replace(said, payload=_contents(received[0]))
        finally:
            for descriptor in received:
                os.close(descriptor)

    def rest(self) -> None:
        """End the process, to free its memory; the next file starts another one."""
        self._end()

    def close(self) -> None:
        """End the process for good, even in the middle of a file."""
        with self._lock:
            self._closed = True
        self._end()

    def _connect(self) -> socket.socket:
        with self._lock:
            if self._closed:
                raise LinesError("flametap is ending")
            if self._process is not None and self._process.poll() is None and self._connection:
                return self._connection
        self._end()
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            with theirs:
                process = start_process(
                    "flametap.symbols.debuginfo.worker",
                    theirs.fileno(),
                    descriptors=[theirs.fileno()],
                )
        except (OSError, ValueError) as error:
            ours.close()
            raise LinesError(
                f"the process that reads debug information cannot be started: {error}"
            ) from error
        with self._lock:
            self._process, self._connection = process, ours
            if self._closed:  # while the process was started
                process.kill()
        return ours

    def _death(self, cpu_s: int) -> str:
        """Return the reason why the process has ended, in a line for the user."""
        process = self._process
        code = None
        if process is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                code = process.wait(_EXIT_TIMEOUT_S)
        self._end()
        if code == -signal.SIGXCPU:
            return self._too_slow(cpu_s)
        if code in (-signal.SIGABRT, -signal.SIGKILL):
            return f"reading {self._subject} took too much memory, or crashed"
        if code is not None and code < 0:
            return f"reading {self._subject} crashed ({signal.Signals(-code).name})"
        return "the process that reads debug information has ended"

    def _too_slow(self, seconds: int) -> str:
        return f"{self._subject} was not read within {seconds} s"

    def _end(self) -> None:
        with self._lock:
            process, self._process = self._process, None
            connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()
        if process is not None:
            process.kill()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_EXIT_TIMEOUT_S)


def parse_answer(answer: bytes) -> Built:
    """Return what the process says about its result, without the payload.

    Raises:
        LinesError: there is no result, or no such answer: a file may have taken over the process.
    """
    try:
        said = json.loads(answer)
        error, note, may_be_kept = said["error"], said["note"], said["may_be_kept"]
    except (ValueError, KeyError, TypeError, RecursionError):
        error, note, may_be_kept = None, "", False
    if not (isinstance(error, str) and isinstance(note, str) and isinstance(may_be_kept, bool)):
        raise LinesError("the process that reads debug information gave no valid answer")
    if error:
        raise LinesError(_one_line(error))
    return Built(b"", _one_line(note), may_be_kept)


def _one_line(text: str) -> str:
    return " ".join(text[:MAX_NOTE].split())


def _asked(answer: bytes) -> tuple[str, int] | None:
    """Return path and root of the file that an answer asks for; None if it is the result."""
    with contextlib.suppress(ValueError, KeyError, TypeError, RecursionError):
        said = json.loads(answer)
        path, root = said["open"], said["root"]
        if isinstance(path, str) and isinstance(root, int) and root >= 0:
            return path, root
    return None


def _lend(connection: socket.socket, lend: Lend | None, path: str, root: int) -> None:
    file = None
    with contextlib.suppress(OSError, ValueError, IndexError):  # it may not be opened
        file = None if lend is None else lend(path, root)
    try:
        socket.send_fds(connection, [b"{}"], [] if file is None else [file.fileno()])
    finally:
        if file is not None:
            file.close()


def _contents(descriptor: int) -> bytes:
    size = os.fstat(descriptor).st_size
    if size > MAX_PAYLOAD_BYTES:
        raise LinesError("its debug information is too large")
    parts = []
    offset = 0
    while offset < size and (part := os.pread(descriptor, size - offset, offset)):
        parts.append(part)
        offset += len(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _memory_bytes() -> int:
    """Return the memory limit of the process in bytes: half of the machine's memory."""
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return max(total // 2, MIN_MEMORY_BYTES)
