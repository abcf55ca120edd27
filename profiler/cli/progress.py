"""Messages and progress on stderr: one rewritten line on a terminal, else a plain line at times."""

from __future__ import annotations

import shutil
import sys
import time
from typing import TextIO

from ..model import Status
from ..recording.cost import Certificate
from ..recording.figures import counted, duration, three_digits
from ..wire.counters import losses
from .printable import printable

PLAIN_INTERVAL_S = 10.0  # between two lines of progress where stderr is a file or a pipe
CLEAR_LINE = "\r\x1b[K"


class Progress:
    """Prints messages and one line of progress.

    Args:
        quiet: print nothing at all.
        stream: to print to; stderr by default.
    """

    def __init__(self, *, quiet: bool = False, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr
        self.is_quiet = quiet
        self._is_terminal = self._stream.isatty()
        self._has_line = False
        self._last_plain_s = time.monotonic()

    def say(self, text: str) -> None:
        """Print a message on a line of its own."""
        if self.is_quiet:
            return
        self.clear()
        self._write(printable(text) + "\n")

    def warn(self, text: str) -> None:
        """Print a warning."""
        self.say(f"warning: {text}")

    @property
    def wants_step(self) -> bool:
        """False while ``step`` would print nothing, so its text is not needed."""
        if self.is_quiet:
            return False
        return self._is_terminal or time.monotonic() - self._last_plain_s >= PLAIN_INTERVAL_S

    def step(self, text: str) -> None:
        """Show the current step; the next message replaces it on a terminal."""
        if not self.wants_step:
            return
        if self._is_terminal:
            columns = shutil.get_terminal_size().columns
            self._write(CLEAR_LINE + printable(text)[: columns - 1])
            self._has_line = True
        else:
            self._last_plain_s = time.monotonic()
            self._write(printable(text) + "\n")

    def clear(self) -> None:
        """Erase the rewritten line."""
        if self._has_line:
            self._write(CLEAR_LINE)
            self._has_line = False

    def _write(self, text: str) -> None:
        try:
            self._stream.write(text)
            self._stream.flush()
        except OSError:
            self.is_quiet = True  # stderr has no reader any more; the recording must not fail


def recording_line(status: Status, threads: int, elapsed_s: float, limit_s: float | None) -> str:
    """Format one line on a running recording: time, samples, losses, cost in per cent of one core.

    Args:
        status: of the capture.
        threads: number of threads that the target has now.
        elapsed_s: since sampling began.
        limit_s: the requested duration; None for no limit.
    """
    time_part = duration(elapsed_s) if elapsed_s >= 1 else f"{elapsed_s:.1f} s"
    if limit_s:
        time_part += f" of {duration(limit_s)}"
    parts = [
        f"{status.state} {status.pid}",
        time_part,
        f"{counted(status.samples, 'sample')} at {three_digits(status.rate_hz)} Hz",
        counted(threads, "thread"),
    ]
    lost = losses(status.counters)
    if lost:
        parts.append(f"{sum(lost.values()):,} lost")
    if status.duration_ns > 0:
        parts.append(f"cost {Certificate.of(status).core_share:.1%}")
    return " · ".join(parts)
