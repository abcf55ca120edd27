"""Find the files in which a target's runtime writes the names of the code that it generates.

A perf map is ``/tmp/perf-PID.map``, in the target's own ``/tmp``, with the pid in the target's own
pid namespace. We keep that folder open from the start: ``/proc/PID/root`` disappears with the
process, and the last names are read after that. A jitdump is a file mapped as ``jit-PID.dump``.
Both are opened with the rights of the target's user.

Source: tools/perf/Documentation/jit-interface.txt, tools/perf/util/jitdump.c; pid_namespaces(7).
"""

from __future__ import annotations

import contextlib
import os
import re

from ...linux import open_beneath, procfs
from ...linux.file_rights import ProcessUser
from ...model import Module
from .growing_file import AppendedFile

_DUMP_NAME = re.compile(r"jit-\d+\.dump")
# The clock may have been adjusted slightly since the process started.
_CLOCK_SLACK_S = 2.0
_ROOT_USER = 0


def is_jitdump(module: Module) -> bool:
    """Return True if the mapping is that of a jitdump."""
    return _DUMP_NAME.fullmatch(module.name) is not None


class JitFiles:
    """The files of one process. Create it while the process runs.

    Args:
        pid: the target.
        proc: where procfs is mounted.
    """

    def __init__(self, pid: int, proc: str = procfs.PROC) -> None:
        self._pid = pid
        self._proc = proc
        self._root = f"{proc}/{pid}/root"
        self._user = ProcessUser(pid, proc)
        self._users = frozenset((_ROOT_USER,))
        self._own_pid = pid
        self._started_s = 0.0
        self._tmp = -1
        with contextlib.suppress(*procfs.GONE):
            status = procfs.read_status(pid, proc)
            self._own_pid = status.own_pid
            self._users |= frozenset(status.uids)
            self._started_s = procfs.read_start_s(pid, proc) - _CLOCK_SLACK_S
        self._open_tmp()

    def perf_map(self) -> AppendedFile:
        """Return the perf map, which may not exist yet."""
        name = f"perf-{self._own_pid}.map"
        flags = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC

        def open_place() -> int:
            if self._tmp < 0:
                self._open_tmp()
            if self._tmp < 0:
                raise PermissionError(f"no right to see {self._root}/tmp")
            return os.open(name, flags, dir_fd=self._tmp)

        path = f"/tmp/{name}"
        return AppendedFile(path, open_place, self._owners, self._started_s, self._user)

    def jitdump(self, module: Module) -> AppendedFile:
        """Return the jitdump of a module; with the right to use map_files also a deleted one."""
        span = f"{module.start:x}-{module.end:x}"

        def open_place() -> int:
            link = f"{self._proc}/{self._pid}/map_files/{span}"
            with contextlib.suppress(OSError):
                return os.open(link, os.O_PATH | os.O_CLOEXEC)
            return open_beneath.open_place(module.path, self._root)

        return AppendedFile(module.path, open_place, self._owners, user=self._user)

    def close(self) -> None:
        """Close the folder. Idempotent."""
        if self._tmp >= 0:
            os.close(self._tmp)
            self._tmp = -1

    def _open_tmp(self) -> None:
        with contextlib.suppress(OSError):
            self._tmp = open_beneath.open_place("/tmp", self._root, self._user)

    def _owners(self) -> frozenset[int]:
        """Return the users whose files we accept: all users of the target so far, and root."""
        with contextlib.suppress(*procfs.GONE):
            self._users |= frozenset(procfs.read_status(self._pid, self._proc).uids)
        return self._users
