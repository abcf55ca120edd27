"""The threads of the profile, summed up at most once per revision for all open pages."""

from __future__ import annotations

import threading
import time

from flametap.analysis.views import Views
from flametap.model import ThreadInfo
from flametap.tree.selection import Span


class ThreadList:
    """A thread-safe cache of ``Views.threads``, which takes long for thousands of them."""

    def __init__(self, views: Views) -> None:
        self._views = views
        self._lock = threading.Lock()
        self._revision = -1
        self._made_s = float("-inf")
        self._threads: list[ThreadInfo] = []
        self._within: tuple[Span, int, list[ThreadInfo]] | None = None

    def get(self, age_s: float = 0.0) -> list[ThreadInfo]:
        """Return the threads.

        Args:
            age_s: how old the list may be; by default it is that of the current revision.
        """
        with self._lock:
            revision = self._views.recording.revision
            is_old = time.monotonic() - self._made_s > age_s
            if self._revision < 0 or (revision != self._revision and is_old):
                # The revision was read before, so it is never newer than the list.
                self._threads = self._views.threads()
                self._revision = revision
                self._made_s = time.monotonic()
            return self._threads

    def within(self, span: Span | None) -> list[ThreadInfo]:
        """Return the threads with their weights in a range of time."""
        if span is None:
            return self.get()
        with self._lock:
            revision = self._views.recording.revision
            if self._within is None or self._within[:2] != (span, revision):
                self._within = span, revision, self._views.threads(span)
            return self._within[2]
