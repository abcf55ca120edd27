"""The host's end of the process that reads debug information: starts it, asks, ends it in time.

The process is started when the first file is to be read and used for all that follow; after a
crash or a missed deadline the next file gets a new one. It is a session of its own, so that
Ctrl-C in the terminal does not reach it.

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
from collections.abc import Sequence

from ...linux.helper_process import start as start_process
from ..names.inline_chains import LinesError
from .job import Built, DebugJob
from .worker import MAX_MESSAGE_BYTES

MAX_PAYLOAD_BYTES = 2 << 30
# Debug information is read at 40 MB/s of .debug_info (libpython, 14 MB: 0.35 s). What takes ten
# times as long will not end.
MIN_CPU_S = 20
CPU_S_PER_MB = 0.25
# A machine under load, a process of low priority: wall time is only there for what does not run
# at all, such as a file on a server that does not answer.
WALL_FACTOR = 10
MIN_MEMORY_BYTES = 2 << 30
_EXIT_TIMEOUT_S = 5.0


class Worker:
    """One process at a time. ``build`` is called by one thread, ``close`` by any."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._connection: socket.socket | None = None
        self._lock = threading.Lock()
        self._closed = False

    def build(self, job: DebugJob, files: Sequence[int], debug_info_bytes: int) -> Built:
        """The symcache for a job.

        Args:
            job: what to read.
            files: an open descriptor for each of the job's ``OPENED`` fields that is not empty.
            debug_info_bytes: its size, for the deadline.

        Raises:
            LinesError: there is none; the message says why.
        """
        cpu_s = MIN_CPU_S + int(debug_info_bytes / 1e6 * CPU_S_PER_MB)
        request = {"job": job.to_json(), "cpu_s": cpu_s, "memory_bytes": _memory_bytes()}
        connection = self._connect()
        try:
            connection.settimeout(cpu_s * WALL_FACTOR)
            socket.send_fds(connection, [json.dumps(request).encode()], list(files))
            answer, received, _, _ = socket.recv_fds(connection, MAX_MESSAGE_BYTES, 1)
        except TimeoutError:
            self._end()
            raise LinesError(_too_slow(cpu_s * WALL_FACTOR)) from None
        except OSError as error:
            raise LinesError(self._death(cpu_s)) from error
        try:
            if not answer:
                raise LinesError(self._death(cpu_s))
            said = json.loads(answer)
            if said["error"] or not received:
                raise LinesError(said["error"] or "nothing came of its debug information")
            return Built(_contents(received[0]), said["note"])
        finally:
            for descriptor in received:
                os.close(descriptor)

    def rest(self) -> None:
        """Ends the process, which holds memory; the next file starts another."""
        self._end()

    def close(self) -> None:
        """Ends the process for good, also in the middle of a file."""
        with self._lock:
            self._closed = True
        self._end()

    def _connect(self) -> socket.socket:
        with self._lock:
            if self._closed:
                raise LinesError("flametap ends")
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
            raise LinesError(f"no process to read debug information in: {error}") from error
        with self._lock:
            self._process, self._connection = process, ours
            if self._closed:  # meanwhile
                process.kill()
        return ours

    def _death(self, cpu_s: int) -> str:
        """Why the process has ended, in a line for the user."""
        process = self._process
        code = None
        if process is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                code = process.wait(_EXIT_TIMEOUT_S)
        self._end()
        if code == -signal.SIGXCPU:
            return _too_slow(cpu_s)
        if code in (-signal.SIGABRT, -signal.SIGKILL):
            return "reading its debug information took too much memory, or crashed"
        if code is not None and code < 0:
            return f"reading its debug information crashed ({signal.Signals(-code).name})"
        return "the process that reads debug information has ended"

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
    """Half of the machine's memory."""
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return max(total // 2, MIN_MEMORY_BYTES)


def _too_slow(seconds: int) -> str:
    return f"its debug information was not read within {seconds} s"
