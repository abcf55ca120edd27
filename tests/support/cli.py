"""Run the command line as a user would, and check what holds for each of its runs."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import kernel
from running import wait_until

COMMAND = [sys.executable, "-m", "flametap"]
ATTACHING = ("record", "dump", "live")
TIMEOUT_S = 180.0


@dataclass(frozen=True)
class Result:
    """A finished run."""

    exit_code: int
    stdout: str
    stderr: str

    def assert_refused(self, exit_code: int, *patterns: str) -> None:
        """Check a refusal: exit code, one line of error that matches each pattern (without regard
        to case), a hint, and neither data nor a traceback."""
        assert "Traceback" not in self.stderr, self.stderr
        assert self.exit_code == exit_code, self.stderr
        assert self.stdout == "", self.stdout
        errors = [line for line in self.stderr.splitlines() if line.startswith("flametap: ")]
        assert len(errors) == 1, f"not exactly one line of error:\n{self.stderr}"
        for pattern in patterns:
            assert re.search(pattern, self.stderr, re.IGNORECASE), (
                f"no {pattern!r} in {self.stderr}"
            )

    def assert_saved(self) -> None:
        """Check that the run went well."""
        assert "Traceback" not in self.stderr, self.stderr
        assert self.exit_code == 0, f"exit {self.exit_code}: {self.stderr}"


def _words(arguments: Sequence[object]) -> list[str]:
    """Make a command line, by the way in that is tried (``recording.WAY``)."""
    words = [str(argument) for argument in arguments]
    way = os.environ.get("FLAMETAP_TEST_WAY")
    if way and words and words[0] in ATTACHING and "--inject" not in words:
        words[1:1] = ["--inject", way]
    return words


def run(
    *arguments: object,
    prefix: Sequence[str] = (),
    env: Mapping[str, str] | None = None,
    timeout_s: float = TIMEOUT_S,
) -> Result:
    """Run ``flametap ARGUMENTS`` to its end; ``prefix`` is a command that runs it (setpriv,
    say)."""
    command = [*prefix, *COMMAND, *_words(arguments)]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=timeout_s, env=env, check=False
    )
    return Result(done.returncode, done.stdout, done.stderr)


class Running:
    """A run that goes on: to be interrupted. Its output goes to files: nothing blocks on a full
    pipe. What it leaves behind is in the same folder."""

    def __init__(self, folder: str, *arguments: object) -> None:
        self._stdout = Path(folder) / "flametap.stdout"
        self._stderr = Path(folder) / "flametap.stderr"
        command = [*COMMAND, *_words(arguments)]
        with self._stdout.open("w") as stdout, self._stderr.open("w") as stderr:
            self.process = subprocess.Popen(
                command,
                stdout=stdout,
                stderr=stderr,
                stdin=subprocess.DEVNULL,
                env={**os.environ, "TMPDIR": folder},
            )

    def __enter__(self) -> Running:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()

    @property
    def output(self) -> str:
        """All it has written so far, stdout then stderr."""
        return self._stdout.read_text() + self._stderr.read_text()

    def wait_for(self, pattern: str, timeout_s: float = 120.0) -> str:
        """Wait until its output matches; return the match's first group, or all of it."""
        wait_until(
            lambda: re.search(pattern, self.output) or self.process.poll() is not None,
            f"flametap to print {pattern!r}",
            timeout_s,
        )
        found = re.search(pattern, self.output)
        assert found, f"flametap ended without printing {pattern!r}:\n{self.output}"
        return found.group(found.lastindex or 0)

    def has_begun(self) -> bool:
        """True once Python has started and runs our code: it handles SIGTERM, which Python leaves
        alone."""
        return kernel.catches(self.process.pid, signal.SIGTERM)

    def interrupt(self, number: int = signal.SIGINT) -> None:
        """Sends a signal, as Ctrl-C does."""
        self.process.send_signal(number)

    def result(self, timeout_s: float = TIMEOUT_S) -> Result:
        """Wait for its end."""
        code = self.process.wait(timeout_s)
        return Result(code, self._stdout.read_text(), self._stderr.read_text())
