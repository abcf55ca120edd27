"""Threads for what is slow and holds nobody up: servers, lists of packages.

A few at a time, begun when there is something to do and gone when there is not.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable

# Enough to keep one slow server from holding up the files of another.
_THREADS = 4


class Errands:
    """Runs jobs, in the order they came. A job may not raise."""

    def __init__(self) -> None:
        self._jobs: deque[Callable[[], None]] = deque()
        self._threads: set[threading.Thread] = set()
        self._lock = threading.Lock()

    def add(self, job: Callable[[], None]) -> None:
        """Runs ``job`` on one of the threads, at once or when its turn comes."""
        with self._lock:
            self._jobs.append(job)
            if len(self._threads) < _THREADS:
                thread = threading.Thread(target=self._run, name="flametap-errand", daemon=True)
                self._threads.add(thread)
                thread.start()

    def close(self, timeout_s: float) -> bool:
        """Forgets what has not begun, and waits for what has.

        Returns:
            False when a job is still at work: in the name service, which cannot be broken off.
        """
        with self._lock:
            self._jobs.clear()
            threads = list(self._threads)
        for thread in threads:
            thread.join(timeout_s)
        return not any(thread.is_alive() for thread in threads)

    def _run(self) -> None:
        while True:
            with self._lock:
                if not self._jobs:
                    self._threads.discard(threading.current_thread())
                    return
                job = self._jobs.popleft()
            job()
