"""A running target, from ``ready`` to its exit code, and the programs of others that are used as
targets."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import IO

READY_S = 60.0  # java on a loaded machine needs several seconds
EXIT_S = 120.0
ANSWER_S = 120.0


def wait_until(holds: Callable[[], object], what: str, timeout_s: float = ANSWER_S) -> None:
    """Wait until ``holds()`` is true; raises AssertionError naming ``what`` when it never becomes
    so."""
    deadline = time.monotonic() + timeout_s
    while not holds():
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {timeout_s:g} s in vain: {what}")
        time.sleep(0.01)


class Target:
    """A child process whose standard output is read all the time, so that it never blocks on it.

    Args:
        argv: the command.
        announces: True if it prints ``ready FACTS`` first (all of ours do).
        cwd: its working directory.
        stdin: what it reads; by default a pipe that ``finish`` closes.
    """

    def __init__(
        self,
        argv: Sequence[str | Path],
        *,
        announces: bool = True,
        cwd: Path | None = None,
        stdin: int | IO[bytes] | None = subprocess.PIPE,
    ) -> None:
        self.name = Path(argv[0]).name
        self.lines: list[str] = []
        self.errors: list[str] = []
        self._process = subprocess.Popen(
            [str(part) for part in argv],
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            bufsize=1,
            cwd=cwd,
            start_new_session=True,  # a group of its own: close() ends its children, too
        )
        self.pid = self._process.pid
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        self._readers = [
            threading.Thread(target=_append_lines, args=(stream, lines), daemon=True)
            for stream, lines in (
                (self._process.stdout, self.lines),
                (self._process.stderr, self.errors),
            )
        ]
        for reader in self._readers:
            reader.start()
        self.facts: dict[str, int] = {}
        if announces:
            self._await_ready()

    def _await_ready(self) -> None:
        wait_until(
            lambda: self.lines or self._process.poll() is not None,
            f"{self.name} to print ready",
            READY_S,
        )
        if not self.lines or not self.lines[0].startswith("ready"):
            raise AssertionError(f"{self.name} did not start: {self.lines} {self.errors}")
        for fact in self.lines[0].split()[1:]:
            key, _, value = fact.rpartition("=")
            self.facts[key] = int(value)

    @property
    def exit_code(self) -> int | None:
        """The exit code, negative for a signal; None while it runs."""
        return self._process.poll()

    @property
    def alive(self) -> bool:
        """True while it runs."""
        return self.exit_code is None

    def say(self, line: str, timeout_s: float = ANSWER_S) -> None:
        """Write a line to its standard input and wait for one line of answer."""
        before = len(self.lines)
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()
        wait_until(
            lambda: len(self.lines) > before or not self.alive,
            f"{self.name} to answer {line!r}",
            timeout_s,
        )
        # Its last lines may be read after its end was seen.
        if not self.alive:
            wait_until(lambda: len(self.lines) > before, f"an answer, but {self.name} ended", 1.0)

    def signal(self, number: int) -> None:
        """Sends it a signal."""
        os.kill(self.pid, number)

    def close_input(self) -> None:
        """End its standard input. May be called again."""
        if self._process.stdin is not None:
            self._process.stdin.close()

    def finish(self, exit_code: int = 0) -> list[str]:
        """Closes its standard input, waits for its end, and returns its report: all lines after
        ``ready``.

        Raises:
            AssertionError: it does not end, or ends with anything but ``exit_code``.
        """
        self.close_input()
        try:
            code = self._process.wait(EXIT_S)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{self.name} does not end when asked to") from None
        for reader in self._readers:
            reader.join(EXIT_S)
        ended = f"{self.name} exited with {code}: {self.lines[-5:]} {self.errors[-5:]}"
        assert code == exit_code, ended
        return self.lines[1:]

    def close(self) -> None:
        """End it and its children whatever they do, and frees its pipes. May be called again."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self._process.wait(EXIT_S)
        for reader in self._readers:
            reader.join(EXIT_S)
        for stream in (self._process.stdin, self._process.stdout, self._process.stderr):
            if stream is not None:
                stream.close()


# Starts one of the targets in tests/targets: start(name, *arguments, variant="").
Start = Callable[..., Target]


def _append_lines(stream: Iterable[str], lines: list[str]) -> None:
    for line in stream:
        lines.append(line.rstrip("\n"))
