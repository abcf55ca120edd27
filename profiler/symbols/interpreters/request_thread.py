"""Answer requests in a thread of their own: what they read may never answer."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from itertools import islice
from typing import Generic, TypeVar

_Request = TypeVar("_Request")
_CLOSE_TIMEOUT_S = 0.5


class RequestThread(Generic[_Request]):
    """A queue of requests, and a thread that begins with the first of them.

    Args:
        name: of the thread.
        answer: called in it with the requests that wait, at least one.
        at_once: how many of them at most; 0 for all.
        on_idle: called in it when there was nothing to do for ``idle_s``, once until the next.
        on_end: called in it at its end.
    """

    def __init__(
        self,
        name: str,
        answer: Callable[[list[_Request]], None],
        *,
        at_once: int = 0,
        on_idle: Callable[[], None] | None = None,
        idle_s: float = 0.0,
        on_end: Callable[[], None] | None = None,
    ) -> None:
        self._name = name
        self._answer = answer
        self._at_once = at_once
        self._on_idle = on_idle
        self._idle_s = idle_s
        self._on_end = on_end
        self._changed = threading.Condition()
        self._wanted: list[_Request] = []
        self._thread: threading.Thread | None = None
        self._closing = False

    def ask(self, requests: Iterable[_Request]) -> None:
        """Request answers; those that wait at the end get none."""
        with self._changed:
            if self._closing:
                return
            self._wanted.extend(requests)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
                self._thread.start()
            self._changed.notify_all()

    def end(self) -> None:
        """Have the thread end behind the answer that it is at. Idempotent."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()

    def close(self) -> None:
        """End the thread, and wait for that a little. Idempotent."""
        self.end()
        if self._thread is not None:
            self._thread.join(timeout=_CLOSE_TIMEOUT_S)

    def _run(self) -> None:
        while requests := self._next():
            self._answer(requests)
        if self._on_end is not None:
            self._on_end()

    def _next(self) -> list[_Request]:
        """Wait for requests; none at the end."""
        with self._changed:
            if self._on_idle is not None and not self._wait(self._idle_s):
                self._on_idle()
            self._wait(None)
            if self._closing:
                return []
            requests = list(islice(self._wanted, self._at_once or None))
            del self._wanted[: len(requests)]
            return requests

    def _wait(self, timeout_s: float | None) -> bool:
        return self._changed.wait_for(lambda: self._closing or bool(self._wanted), timeout_s)
