"""Record a process, or a program that is started, from Python."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Sequence
from types import TracebackType

from ..capture.capture_options import CaptureOptions
from ..capture.launch import launch
from ..capture.limits import check_sampling
from ..capture.live import Capture
from ..errors import NoSamplesError
from ..inject import process
from ..inject.nursery import Nursery
from ..safety import preflight
from .recording import Recording

NAMING_S = 120.0  # the longest wait for the names of the functions
_POLL_S = 0.1


class Live:
    """Processes that are being recorded: a context manager; see ``attach``.

    Attributes:
        pid: the first of them.
        recording: what was recorded so far; at the end of the block all of it, with its names.
    """

    def __init__(
        self,
        pids: Sequence[int],
        rate: float,
        budget: float,
        *,
        children: bool = False,
        ends_with_first: bool = False,
        on_sampling: Callable[[], None] = lambda: None,
    ) -> None:
        rate_hz, budget_ppm = check_sampling(rate, budget)
        self._on_sampling = on_sampling
        self.pid, *others = dict.fromkeys(pids)
        for pid in pids:
            preflight.check(pid)
        folder = tempfile.mkdtemp(prefix="flametap-")
        path = os.path.join(folder, "recording.flametap")
        options = CaptureOptions(rate_hz=rate_hz, budget_ppm=budget_ppm, names_remedies=False)
        self._nursery = Nursery() if children or others else None
        start = process.start if self._nursery is None else self._nursery.start
        self._capture = Capture(self.pid, options, start(self.pid, options.inject), self._nursery)
        if self._nursery is not None:
            self._capture.follow(others, children=children, ends_with_first=ends_with_first)
        self._capture.keep_in(open(path, "wb"), path)  # noqa: SIM115 - the capture closes it
        self.recording = Recording(self._capture.recording, folder)

    def __enter__(self) -> Live:
        self._capture.start(self._on_sampling)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def wait(self, timeout_s: float) -> bool:
        """Wait for the end of the process; return False after a timeout."""
        return self._capture.wait(timeout_s)

    @property
    def ended_because(self) -> str:
        """Why the recording ended; "" while it goes on."""
        return self._capture.status().reason

    def pause(self) -> None:
        """Stop taking samples."""
        self._capture.set_paused(True)

    def resume(self) -> None:
        """Take samples again."""
        self._capture.set_paused(False)

    def stop(self) -> None:
        """Detach, and wait for the names of the functions. May be called again."""
        capture = self._capture
        try:
            capture.stop()
            capture.finish_symbols(NAMING_S)
            if capture.keeper is not None:
                capture.keeper.finish()
        finally:
            capture.close()
            if self._nursery is not None:
                self._nursery.close()
        if capture.error is not None:
            raise capture.error


def attach(
    pid: int, *others: int, rate: float = 100.0, budget: float = 1.0, children: bool = False
) -> Live:
    """Return what records running processes while its block runs.

    Args:
        pid: the process.
        others: more of them, into the same recording.
        rate: samples in a second of each thread's CPU time, and looks at sleeping threads.
        budget: the most that sampling may cost, in per cent of a core; 0 for no limit.
        children: also record the processes that they start.

    Raises:
        FlametapError: a process cannot be attached to; the message says why.
    """
    return Live([pid, *others], rate, budget, children=children)


def record(
    command: Sequence[str],
    *,
    duration: float | None = None,
    rate: float = 100.0,
    budget: float = 1.0,
    children: bool = True,
) -> Recording:
    """Start a program, record it from its first instruction to its end, and return the recording.

    Args:
        command: the program and its arguments.
        duration: record only so many seconds; the program still runs to its end.
        rate: see ``attach``.
        budget: see ``attach``.
        children: see ``attach``.

    Raises:
        FlametapError: the program cannot be started or recorded.
        NoSamplesError: it ended before it was sampled.
    """
    launched = launch(list(command))
    try:
        live = Live(
            *([launched.pid], rate, budget),
            children=children,
            ends_with_first=True,
            on_sampling=launched.release,
        )
        with live:
            end_s = None if duration is None else time.monotonic() + duration
            while end_s is None or time.monotonic() < end_s:
                if live.wait(_POLL_S):
                    break
    except BaseException:
        launched.terminate()
        raise
    launched.wait()
    if not live.recording.duration_s:
        why = live.ended_because
        raise NoSamplesError(
            f"nothing of {command[0]} was recorded" + (f": {why}" if why else ""),
            "give the program itself, if that is a script that starts it",
        )
    return live.recording
