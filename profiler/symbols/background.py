"""Run slow jobs that nothing waits for in threads: requests to servers, reading package lists.

There are at most _THREADS threads. They are started when there is a job, and end when there is
none.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable

# Enough that one slow server does not delay the files of another.
_THREADS = 4


class BackgroundJobs:
    """A queue of jobs, which threads run in order. A job must not raise."""

    def __init__(self) -> None:
        self._jobs: deque[Callable[[], None]] = deque()
        self._threads: set[threading.Thread] = set()
        self._lock = threading.Lock()

    def add(self, job: Callable[[], None]) -> None:
        """Queue ``job``, to be run by one of the threads."""
        with self._lock:
            self._jobs.append(job)
            if len(self._threads) < _THREADS:
                thread = threading.Thread(target=self._run, name="flametap-errand", daemon=True)
                self._threads.add(thread)
                thread.start()

    def close(self, timeout_s: float) -> bool:
        """Drop the jobs that have not started, and wait for the others.

        Args:
            timeout_s: how long to wait for each thread.

        Returns:
            False if a job is still running: a look-up in the name service cannot be cancelled.
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
