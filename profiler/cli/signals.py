"""SIGINT, SIGTERM and SIGHUP: the first asks for an orderly end, the second for a quick one,
and the third ends us on the spot.

Before the third, handlers only count and wake: what to do is decided by the command. Whenever we
vanish, it is safe for the target (``flametap.inject.server``).

Python runs handlers on the main thread, between two of its instructions, so the main thread must
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
EXIT_CODE = 130  # what shells give for a command that Ctrl-C ended
LEAVE_AT = 3
LEFT = b"\nleft without saving; the process is let go behind us\n"


@contextlib.contextmanager
def not_suspended() -> Iterator[None]:
    """Puts Ctrl-Z off to the end of the block.

    While Frida injects its agent, and while it takes it out, a thread of the target stands still
    and waits for us: it would wait as long as we are stopped. Main thread only.
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
    """Ends this process now, whatever it waits for."""
    with contextlib.suppress(OSError):
        os.write(2, LEFT)
    os._exit(EXIT_CODE)


class Interrupts:
    """Counts the signals while the block runs; afterwards the former handlers are back.

    Attributes:
        last_resort: called in the handler of the third signal, and of each one after it.
    """

    def __init__(self) -> None:
        self.last_resort: Callable[[], None] = leave
        self.count = 0
        self.last = signal.SIGINT  # the latest one
        self._reply = ""
        self._woken = threading.Event()
        self._former: list[tuple[signal.Signals, Any]] = []

    @property
    def stop(self) -> bool:
        """Come to an end, and save."""
        return self.count >= 1

    @contextlib.contextmanager
    def replying(self, text: str) -> Iterator[None]:
        """While the block runs, each signal is answered with ``text`` on stderr."""
        self._reply = text
        try:
            yield
        finally:
            self._reply = ""

    def wait(self, timeout_s: float) -> bool:
        """Sleeps until the first signal, at the longest; True if it has come."""
        return self._woken.wait(timeout_s)

    def __enter__(self) -> Interrupts:
        for number in SIGNALS:
            former = signal.getsignal(number)
            # nohup, and shells that start us in the background, want it ignored.
            if former is not signal.SIG_IGN:
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
            # Past Python's buffers, which are not reentrant.
            with contextlib.suppress(OSError):
                os.write(2, self._reply.encode())
        if self.count >= LEAVE_AT:
            self.last_resort()
