"""Run a real server and its load: start them, count failures, end them.

All of them use one folder, and run as the user of their package. Installed servers and their data
are not touched. All processes end with this one.
"""

from __future__ import annotations

import contextlib
import math
import os
import pwd
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import programs
import usage

sys.path.append(str(Path(__file__).resolve().parent.parent / "tests" / "support"))
from nginx import NGINX_CONF as NGINX_CONF

READY_S = 60.0
END_S = 20.0
CHOOSE_S = 0.5
POSTGRES = "/usr/lib/postgresql"
# What loads print of what failed: the group is how often, or nothing for once.
FAULTS = (
    r"\b(?:err|reconn)/s: ([\d.]+)",  # sysbench
    r"\b(\d+) failed",  # pgbench
    r"errors (\d+)",  # memload
    r"(?:connect|read|write|timeout) (\d+)",  # wrk
    r"Non-2xx or 3xx responses: (\d+)",
    r"(?:FATAL|ERROR|Error:|Error from server|error:)()",
)


def find(program: str) -> str:
    """Return the path of a program, "" if it is missing; for PostgreSQL, of the newest version."""
    versions = sorted(Path(POSTGRES).glob("*/bin"), key=lambda path: float(path.parent.name))
    path = [os.environ.get("PATH", os.defpath), "/usr/sbin", *map(str, reversed(versions))]
    return shutil.which(program, path=os.pathsep.join(path)) or ""


def faults(text: str) -> int:
    """Return the number of failures in a load's output."""
    told = [match[1] for pattern in FAULTS for match in re.finditer(pattern, text)]
    return sum(math.ceil(float(number or 1)) for number in told)


class Site:
    """A server, the servers before or behind it, and its load.

    Args:
        folder: readable by other users; its contents are kept for the next site.
        cpu: the CPU that all processes run on; None for all CPUs.
    """

    def __init__(self, folder: Path, cpu: int | None) -> None:
        self.folder = folder
        self._prefix = [] if cpu is None else ["taskset", "-c", str(cpu)]
        self._running: list[tuple[subprocess.Popen[bytes], signal.Signals]] = []
        self._load: subprocess.Popen[bytes] | None = None

    def own_folder(self, name: str, user: str) -> tuple[Path, bool]:
        """Return a folder owned by ``user``, and True if it is new."""
        path = self.folder / name
        is_new = not path.exists()
        if is_new:
            path.mkdir()
            shutil.chown(path, user)
        return path, is_new

    def run(self, *command: str | Path, user: str = "root") -> None:
        """Run a command to its end.

        Raises:
            RuntimeError: it fails.
        """
        done = subprocess.run(
            _as_user(user, command), capture_output=True, text=True, check=False, cwd="/"
        )
        if done.returncode:
            said = (done.stderr or done.stdout).strip()
            raise RuntimeError(f"{Path(command[0]).name}: {said[-200:]}")

    def start(
        self,
        *command: str | Path,
        user: str = "root",
        end_by: signal.Signals = signal.SIGTERM,
        is_ready: Callable[[], bool] = lambda: True,
    ) -> subprocess.Popen[bytes]:
        """Start a server and wait until it answers.

        Raises:
            RuntimeError: it ends, or does not become ready.
        """
        process = self._start([*_as_user(user, command)])
        self._running.append((process, end_by))
        deadline = time.monotonic() + READY_S
        while not is_ready():
            if process.poll() is not None or time.monotonic() > deadline:
                said = self._log(process.args).read_text(errors="replace").strip()
                raise RuntimeError(f"{Path(command[0]).name} is not ready: {said[-200:]}")
            time.sleep(0.05)
        return process

    def load(self, *command: str | Path) -> None:
        """Start the load; it runs until ``end_load``."""
        self._load = self._start([*_as_user("root", command)])

    def busiest(self) -> int:
        """Return the process with the most CPU time of the server that was started last."""
        server = self._running[-1][0].pid
        before = {pid: usage.cpu_ns(pid) for pid in [server, *_children(server)]}
        time.sleep(CHOOSE_S)
        return max(before, key=lambda pid: usage.cpu_ns(pid) - before[pid])

    def end_load(self) -> int:
        """End the load and return how many of its requests failed.

        Raises:
            RuntimeError: it had ended before.
        """
        assert self._load is not None
        load, self._load = self._load, None
        has_ended = load.poll() is not None
        _end(load, signal.SIGINT)
        text = self._log(load.args).read_text(errors="replace")
        if has_ended:
            raise RuntimeError(f"the load ended by itself: {text.strip()[-200:]}")
        return faults(text)

    def close(self) -> None:
        """End everything, the load first."""
        if self._load is not None:
            _end(self._load, signal.SIGINT)
        for process, end_by in reversed(self._running):
            _end(process, end_by)
        self._running.clear()

    def _start(self, command: list[str]) -> subprocess.Popen[bytes]:
        with self._log(command).open("wb") as log:
            return subprocess.Popen(
                [*self._prefix, *command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd="/",
                preexec_fn=programs.step_aside,
            )

    def _log(self, command: object) -> Path:
        assert isinstance(command, list)
        words = [word for word in command if word not in self._prefix]
        return self.folder / f"{Path(words[words.index('--') + 1]).name}.log"

    def __enter__(self) -> Site:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _as_user(user: str, command: Sequence[str | Path]) -> list[str]:
    """Return a command that runs as ``user`` and ends with this process."""
    ids = pwd.getpwnam(user)
    become = [f"--reuid={ids.pw_uid}", f"--regid={ids.pw_gid}", "--clear-groups"]
    become = become if user != "root" else []
    return ["setpriv", "--pdeathsig", "TERM", *become, "--", *map(str, command)]


def _children(pid: int) -> list[int]:
    with contextlib.suppress(OSError):
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return []


def _end(process: subprocess.Popen[bytes], how: signal.Signals) -> None:
    """End a process; kill it if it does not end by itself."""
    if process.poll() is None:
        process.send_signal(how)
    try:
        process.wait(END_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def free_port() -> int:
    """Return a free port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def listens(port: int) -> Callable[[], bool]:
    """Return True if a process listens on a port."""

    def probe() -> bool:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return True
        return False

    return probe


def succeeds(*command: str | Path) -> Callable[[], bool]:
    """Return True if a command exits with 0."""

    def probe() -> bool:
        return not subprocess.run(list(map(str, command)), capture_output=True, cwd="/").returncode

    return probe
