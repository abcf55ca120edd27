"""Record the process that asks for it: a notebook's kernel, or a run of tests.

A process does not attach to itself: ``flametap record`` does, as a child.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from ..errors import AttachFailedError, FlametapError

BEGUN_S = 60.0
ENDED_S = 300.0
_POLL_S = 0.005
_PR_SET_PTRACER = 0x59616D61


class OwnRecording:
    """A recording of this process, which has begun when it is made.

    Args:
        path: the file.
        rate: samples in a second of CPU time.

    Raises:
        AttachFailedError: the process cannot be recorded; the message says why.
    """

    def __init__(self, path: str, rate: float = 100.0) -> None:
        self.path = path
        command = [sys.executable, "-m", "flametap", "record", "-p", str(os.getpid())]
        self._child = subprocess.Popen(
            [*command, "-r", f"{rate:g}", "-o", path],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,  # Ctrl-C is for us; it is ended by `stop`
        )
        # Where Yama lets only ancestors trace, a child needs our leave.
        ctypes.CDLL(None).prctl(_PR_SET_PTRACER, ctypes.c_ulong(self._child.pid), 0, 0, 0)
        deadline_s = time.monotonic() + BEGUN_S
        while not _has_begun(path):
            if self._child.poll() is not None or time.monotonic() > deadline_s:
                raise AttachFailedError(f"this process cannot be recorded: {self._why()}")
            time.sleep(_POLL_S)

    def stop(self) -> None:
        """End the recording, and wait for its file.

        Raises:
            FlametapError: nothing was saved; the message says why.
        """
        self._child.send_signal(signal.SIGINT)
        why = self._why()
        if self._child.returncode not in (0, -signal.SIGINT):
            raise FlametapError(f"nothing was recorded: {why}", "record for longer")

    def _why(self) -> str:
        """Wait for the end, and return what it said last."""
        try:
            _, said = self._child.communicate(timeout=ENDED_S)
        except subprocess.TimeoutExpired:
            self._child.kill()
            _, said = self._child.communicate()
        errors = [line for line in said.splitlines() if line.startswith("flametap: ")]
        return errors[-1].removeprefix("flametap: ") if errors else "flametap ended"


def _has_begun(path: str) -> bool:
    """Return whether the file has samples."""
    try:
        return b"GAIN" in Path(path).read_bytes()
    except FileNotFoundError:
        return False
