"""The one thread of ours that traces: only the thread that has stopped another one can release it.

Frida traces from a thread of its own, which we cannot have do anything. So its calls are done here,
and a thread of the target can be kept for longer than Frida thinks. When our process ends, the
kernel lets go of all that it traces (ptrace(2)).
"""

from __future__ import annotations

import ctypes
import errno
import queue
import threading
from collections.abc import Callable

_Entry = tuple[Callable[[], int], "queue.SimpleQueue[object]"]


class Tracer:
    """Run calls one after another on its own thread, which starts with the first and stays until
    ``end``.

    Args:
        look: called between two calls, and every ``look_interval_s`` while it returns True.
        look_interval_s: see ``look``.
    """

    def __init__(self, look: Callable[[], bool], look_interval_s: float) -> None:
        self._look = look
        self._look_interval_s = look_interval_s
        self._calls: queue.SimpleQueue[_Entry] = queue.SimpleQueue()
        self._is_over = False  # no more calls are taken …
        self._is_leaving = False  # … and the last one has come
        self._thread: threading.Thread | None = None
        self._starting = threading.Lock()

    def run(self, call: Callable[[], int]) -> int:
        """Make the thread run ``call``; returns its result and sets ctypes' errno as it did.

        Raises:
            OSError: it has been ended.
            Exception: whatever ``call`` raised.
        """
        answer: queue.SimpleQueue[object] = queue.SimpleQueue()
        with self._starting:
            if self._is_over:
                raise OSError(errno.ESRCH, "the thread that traces has ended")
            if self._thread is None:
                thread = threading.Thread(target=self._serve, daemon=True, name="tracer")
                thread.start()
                self._thread = thread
            self._calls.put((call, answer))
        outcome = answer.get()
        if isinstance(outcome, BaseException):
            raise outcome
        assert isinstance(outcome, tuple)
        result, failure = outcome
        ctypes.set_errno(failure)
        return int(result)

    def end(self, last: Callable[[], int]) -> None:
        """Make the thread run one more call, and end when ``look`` returns False. Returns at once.

        Args:
            last: the call; not run where there has been none before.
        """

        def leave() -> int:
            self._is_leaving = True
            return last()

        with self._starting:
            if self._thread is not None and not self._is_over:
                self._calls.put((leave, queue.SimpleQueue()))
            self._is_over = True

    def _serve(self) -> None:
        must_look = False
        while must_look or not self._is_leaving:
            try:
                call, answer = self._calls.get(timeout=self._look_interval_s if must_look else None)
            except queue.Empty:
                pass
            else:
                try:
                    answer.put((call(), ctypes.get_errno()))
                except BaseException as error:
                    answer.put(error)
            try:
                must_look = self._look()
            except Exception:  # no descriptor left, say: later there may be one
                must_look = True
