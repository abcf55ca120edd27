"""SIGINT, SIGTERM and SIGHUP: the first asks for an orderly end, the second for a quick one, and
the third ends this process at once.

Handlers of the first two only count and wake the main thread; the command decides what to do. This
process may end at any time without harm to the target (``flametap.inject.server``).

Python runs handlers on the main thread, between two bytecode instructions, so the main thread must
not stay in C code for long.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType, TracebackType
from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
EXIT_CODE = 130  # 128 + SIGINT, as shells report a command that Ctrl-C ended
LEAVE_AT = 3
LEFT = b"\nended at once, nothing more is saved; the process is being released\n"


@contextlib.contextmanager
def not_suspended() -> Iterator[None]:
    """Postpone Ctrl-Z (SIGTSTP) to the end of the block. Main thread only.

    While Frida injects or removes its agent, a thread of the target is stopped and waits for us. If
    we were suspended then, it would stay stopped, too.
    """
    asked: list[int] = []
    former = signal.signal(signal.SIGTSTP, lambda number, _: asked.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGTSTP, former)
        if asked:
            signal.raise_signal(signal.SIGTSTP)


class Interrupted(Exception):
    """The user ended the command before there was anything to save."""


def leave() -> None:
    """End this process at once, with exit code 130, even if other threads hang."""
    with contextlib.suppress(OSError):
        os.write(2, LEFT)
    os._exit(EXIT_CODE)


class Interrupts:
    """Counts the signals while the block runs; its end restores the former handlers.

    Attributes:
        last_resort: called in the handler of the third signal and of each later one.
    """

    def __init__(self) -> None:
        self.last_resort: Callable[[], None] = leave
        self.count = 0
        self.last = signal.SIGINT  # the latest one
        self._reply = ""
        self._woken = threading.Event()
        self._former: list[tuple[signal.Signals, Any]] = []

    @property
    def ignored(self) -> list[signal.Signals]:
        """Those that we handle, though we were started with them ignored."""
        return [number for number, former in self._former if former is signal.SIG_IGN]

    @property
    def stop(self) -> bool:
        """True once a signal has asked the command to end and save."""
        return self.count >= 1

    @contextlib.contextmanager
    def replying(self, text: str) -> Iterator[None]:
        """Answer each signal with ``text`` on stderr while the block runs."""
        self._reply = text
        try:
            yield
        finally:
            self._reply = ""

    def wait(self, timeout_s: float) -> bool:
        """Wait for the first signal, at most ``timeout_s``. Return True if it has arrived."""
        return self._woken.wait(timeout_s)

    def __enter__(self) -> Interrupts:
        for number in SIGNALS:
            former = signal.getsignal(number)
            # nohup has SIGHUP ignored, as the user wishes. A script's shell does the same to SIGINT
            # for what it starts with &, and `kill -INT` is how such a profiler is ended.
            if number is not signal.SIGHUP or former is not signal.SIG_IGN:
                self._former.append((number, former))
                signal.signal(number, self._handle)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for number, former in self._former:
            signal.signal(number, former)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        self.count += 1
        self.last = signal.Signals(number)
        self._woken.set()
        if self._reply:
            # Bypasses Python's buffers, which are not reentrant.
            with contextlib.suppress(OSError):
                os.write(2, self._reply.encode())
        if self.count >= LEAVE_AT:
            self.last_resort()
