"""Ask a .NET program to write its perf map, through the diagnostics port of its runtime.

The runtime (8 and newer) listens on a socket in its temporary folder for exactly such requests, and
answers them in a thread of its own. On request it writes the names of all methods that it has
compiled into ``/tmp/perf-PID.map``, and then those that it compiles, until the next request. So
nothing is asked for that the user of flametap has not asked for, and it is taken back at the end.

The folder, the socket and the file are found as the target's other files are: below its root, with
the rights of its user. The kernel says who listens, so that no other program is asked.

Source: dotnet/diagnostics, documentation/design-docs/ipc-protocol.md; unix(7), SO_PEERCRED.
"""

from __future__ import annotations

import contextlib
import os
import re
import socket
import stat
import struct
import time

from ...errors import FlametapError, UsageError
from ...linux import open_beneath, procfs
from ...linux.file_rights import ProcessUser, acting_as
from ...linux.peer import peer_of

FOLDER = "/tmp"  # where perf maps are looked for, too
ANSWER_S = 10.0  # it first writes the names of what is compiled by now
_MAGIC = b"DOTNET_IPC_V1\0"
_HEADER = struct.Struct("<14sHBBH")  # magic, bytes with the header, command set, command, 0
_PROCESS, _ENABLE_PERF_MAP, _DISABLE_PERF_MAP = 4, 5, 6
_PERF_MAP = 3  # not a jitdump, too
_SERVER, _OK = 0xFF, 0
_UNKNOWN_COMMAND = 0x80131385
_MAX_ANSWER_BYTES = 1 << 16
OPTION = "--enable-perf-map"


class DotnetPerfMap:
    """The perf map of a .NET program, from ``enable`` to ``disable`` and ``close``.

    Args:
        pid: the program.
        is_wanted: nothing is done without it.
        proc: where procfs is mounted.
    """

    def __init__(self, pid: int, is_wanted: bool = True, proc: str = procfs.PROC) -> None:
        self._pid = pid
        self._is_wanted = is_wanted
        self._proc = proc
        self._user = ProcessUser(pid, proc)
        self._tmp = -1
        self._name = ""
        self._file: tuple[int, int] | None = None  # device and inode of the file that we caused
        self._is_on = False

    def enable(self) -> None:
        """Have it written. Does nothing if the program writes one by itself.

        Raises:
            UsageError: it is no .NET program, or one that cannot do this.
            FlametapError: it does not answer, or says no.
        """
        if not self._is_wanted:
            return
        try:
            status = procfs.read_status(self._pid, self._proc)
            started_s = procfs.read_start_s(self._pid, self._proc)
            self._tmp = open_beneath.open_place(
                FOLDER, f"{self._proc}/{self._pid}/root", self._user
            )
        except OSError as error:
            what = f"{OPTION}: {FOLDER} of process {self._pid} cannot be opened: {error.strerror}"
            raise FlametapError(what, "run flametap as the program's user, or as root") from None
        self._name = f"perf-{status.own_pid}.map"
        before = self._stat()
        if before is not None and before.st_mtime > started_s:
            return
        for _ in range(2):  # it may have been on already, and its file removed
            self._ask(status.own_pid, _ENABLE_PERF_MAP, struct.pack("<I", _PERF_MAP))
            now = self._stat()
            if now is not None:
                break
            self._take_back(status.own_pid)
        else:
            raise UsageError(
                f"{OPTION}: the runtime of process {self._pid} writes its perf map elsewhere",
                "DOTNET_PerfMapJitDumpPath or TMPDIR in its environment say where; perf maps are "
                f"read from {FOLDER} only",
            )
        self._file = now.st_dev, now.st_ino
        self._is_on = True

    def disable(self) -> None:
        """Have it written no more, if ``enable`` has begun it. Idempotent; never raises."""
        if self._is_on:
            self._is_on = False
            with contextlib.suppress(*procfs.GONE):
                self._take_back(procfs.read_status(self._pid, self._proc).own_pid)

    def close(self) -> None:
        """``disable``, and remove the file that ``enable`` caused. Idempotent; never raises."""
        self.disable()
        if self._file is not None:
            with contextlib.suppress(OSError), acting_as(self._user):
                now = self._stat()
                if now is not None and (now.st_dev, now.st_ino) == self._file:
                    os.unlink(self._name, dir_fd=self._tmp)
            self._file = None
        if self._tmp >= 0:
            os.close(self._tmp)
            self._tmp = -1

    def _stat(self) -> os.stat_result | None:
        try:
            found = os.stat(self._name, dir_fd=self._tmp, follow_symlinks=False)
        except OSError:
            return None
        return found if stat.S_ISREG(found.st_mode) else None

    def _take_back(self, own_pid: int) -> None:
        with contextlib.suppress(FlametapError):
            self._ask(own_pid, _DISABLE_PERF_MAP, b"")

    def _ask(self, own_pid: int, command: int, payload: bytes) -> None:
        """Send a request and wait for the answer."""
        size = _HEADER.size + len(payload)
        with self._connected(own_pid) as port:
            try:
                port.sendall(_HEADER.pack(_MAGIC, size, _PROCESS, command, 0) + payload)
                answer = _receive(port, time.monotonic() + ANSWER_S)
            except (OSError, ValueError):
                raise FlametapError(
                    f"{OPTION}: the .NET runtime of process {self._pid} does not answer",
                    "leave the option out; a program that is stopped or starts answers later",
                ) from None
        if answer is None:
            return
        if answer == _UNKNOWN_COMMAND:
            raise UsageError(
                f"{OPTION}: the .NET runtime of process {self._pid} is older than .NET 8",
                "start the program with DOTNET_PerfMapEnabled=1 in its environment",
            )
        raise FlametapError(
            f"{OPTION}: the .NET runtime of process {self._pid} refuses (0x{answer:08x})",
            "leave the option out",
        )

    def _connected(self, own_pid: int) -> socket.socket:
        """Connect to the port that the program itself listens on."""
        pattern = re.compile(rf"dotnet-diagnostic-{own_pid}-\d+-socket")
        with contextlib.suppress(OSError), acting_as(self._user):
            folder = os.open(f"/proc/self/fd/{self._tmp}", os.O_RDONLY | os.O_DIRECTORY)
            try:
                names = [name for name in os.listdir(folder) if pattern.fullmatch(name)]
            finally:
                os.close(folder)
            for name in names:
                port = self._connect(name)
                if port is not None:
                    return port
        raise UsageError(
            f"{OPTION}: process {self._pid} is no .NET program with a diagnostics port in {FOLDER}",
            "leave the option out; DOTNET_EnableDiagnostics=0 in its environment closes the port",
        )

    def _connect(self, name: str) -> socket.socket | None:
        port = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        place = -1
        try:
            port.settimeout(ANSWER_S)
            # As a place that is a socket: no link leads elsewhere.
            place = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=self._tmp)
            port.connect(f"/proc/self/fd/{place}")
            if peer_of(port).pid == self._pid:
                return port
        except OSError:
            pass
        finally:
            if place >= 0:
                os.close(place)
        port.close()
        return None


def _receive(port: socket.socket, deadline_s: float) -> int | None:
    """Return None for yes, a number for no.

    Raises:
        OSError: there was no answer in time.
        ValueError: it is none.
    """
    header = _receive_bytes(port, _HEADER.size, deadline_s)
    magic, size, answers, answer, _ = _HEADER.unpack(header)
    if magic != _MAGIC or answers != _SERVER or not _HEADER.size <= size <= _MAX_ANSWER_BYTES:
        raise ValueError("no answer of a diagnostics port")
    payload = _receive_bytes(port, size - _HEADER.size, deadline_s)
    if answer == _OK:
        return None
    if len(payload) < 4:
        raise ValueError("an error without a number")
    return int.from_bytes(payload[:4], "little")


def _receive_bytes(port: socket.socket, count: int, deadline_s: float) -> bytes:
    received = b""
    while len(received) < count:
        port.settimeout(max(deadline_s - time.monotonic(), 0.001))
        more = port.recv(count - len(received))
        if not more:
            raise ValueError("the answer ends early")
        received += more
    return received
