"""Programs to measure: built from ``targets/``, started, and controlled through pipes."""

from __future__ import annotations

import contextlib
import os
import select
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

TARGETS = Path(__file__).resolve().parent / "targets"
TEST_TARGETS = TARGETS.parent.parent / "tests" / "targets"
FLAGS = ("-std=gnu11", "-O2", "-g", "-fomit-frame-pointer", "-pthread")
START_TIMEOUT_S = 30.0
ANSWER_TIMEOUT_S = 60.0


def build(name: str, folder: Path, *flags: str, source: Path | None = None) -> Path:
    """Build ``targets/NAME.c``.

    Raises:
        subprocess.CalledProcessError: gcc failed.
    """
    program = folder / name
    source = source or TARGETS / f"{name}.c"
    subprocess.run(["gcc", *FLAGS, *flags, "-o", program, source, "-lm"], check=True)
    return program


def step_aside() -> None:
    """Reset the priority of ``go_first`` in a child, before it executes a program."""
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, 0)


def go_first() -> None:
    """Raise the priority of this process and the profilers it starts, where that is allowed. With
    300 busy threads on two CPUs, a profiler would take minutes to start, which is not measured.
    """
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, -15)


class Program:
    """A running program that printed "ready" and answers each line with a line.

    Raises:
        RuntimeError: it did not become ready, or does not answer.
    """

    def __init__(
        self,
        command: Sequence[str | Path],
        ready_timeout_s: float = START_TIMEOUT_S,
        folder: Path | None = None,
    ) -> None:
        self.name = Path(command[1 if command[0] == sys.executable else 0]).name
        self.process = subprocess.Popen(
            list(map(str, command)),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
            cwd=folder,
            preexec_fn=step_aside,
        )
        self.pid = self.process.pid
        self._pending = b""
        try:
            line = self.read_line(ready_timeout_s)
            if not line.startswith("ready"):
                raise RuntimeError(f"{self.name} is not ready: {line!r}")
        except BaseException:
            self.close()
            raise

    def read_line(self, timeout_s: float = ANSWER_TIMEOUT_S) -> str:
        """Return the next line of its output, "" at the end."""
        assert self.process.stdout is not None
        while b"\n" not in self._pending:
            if not select.select([self.process.stdout], [], [], timeout_s)[0]:
                raise RuntimeError(f"{self.name} is silent for {timeout_s:.0f} s")
            data = self.process.stdout.read(65536)
            if not data:
                return self._pending.decode()
            self._pending += data
        line, self._pending = self._pending.split(b"\n", 1)
        return line.decode()

    def tell(self, line: str = "") -> None:
        """Send a line."""
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(line.encode() + b"\n")
        except BrokenPipeError:
            raise RuntimeError(f"{self.name} has ended") from None

    def ask(self, line: str = "") -> str:
        """Send a line and return the answer."""
        self.tell(line)
        answer = self.read_line()
        if not answer:
            raise RuntimeError(f"{self.name} has ended")
        return answer

    def finish(self) -> str:
        """Close its input and return the rest of its output."""
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        rest = []
        while line := self.read_line():
            rest.append(line)
        self.close()
        return "\n".join(rest)

    @property
    def is_alive(self) -> bool:
        return self.process.poll() is None

    def close(self) -> None:
        """End the program; kill it if it does not end by itself."""
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def __enter__(self) -> Program:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def python_program(name: str, *arguments: str | Path, python: str = sys.executable) -> Program:
    """Start ``targets/NAME.py`` under a Python, by default this one."""
    return Program([python, TARGETS / f"{name}.py", *arguments])
