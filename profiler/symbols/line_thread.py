"""Read the debug information of modules in a thread, one module at a time, the smallest first.

A process of its own does the reading (``worker_client``); this thread waits for it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from ..recording.names.inline_chains import LineSource
from .debuginfo.reader import DebugInfo
from .module_work import ModuleWork

# The worker's process is kept this long for the next file.
REST_AFTER_S = 5.0

# Called under the lock with the result for a module: its lines or None, and a note.
Finish = Callable[[ModuleWork, "LineSource | None", str], None]


class LineReader:
    """A queue of modules, and the loop of the thread that reads them.

    Args:
        changed: the lock, notified of every change.
        debug_info: reads debug information.
        finish: receives the result for each module.
    """

    def __init__(self, changed: threading.Condition, debug_info: DebugInfo, finish: Finish) -> None:
        self._changed = changed
        self._debug_info = debug_info
        self._finish = finish
        self._queue: list[ModuleWork] = []
        self._closing = False

    def add(self, work: ModuleWork) -> None:
        """Queue a module that has debug information. Called under the lock."""
        self._queue.append(work)
        self._changed.notify_all()

    def close(self) -> None:
        """End :meth:`run`, even while it reads a file."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        self._debug_info.close()

    def run(self) -> None:
        """Read the queued modules until :meth:`close`."""
        while True:
            with self._changed:
                self._changed.wait_for(self._has_work, REST_AFTER_S)
            if not self._has_work():
                self._debug_info.rest()
            with self._changed:
                self._changed.wait_for(self._has_work)
                if self._closing:
                    break
                work = min(self._queue, key=ModuleWork.debug_cost)
                self._queue.remove(work)
            lines, note = None, ""
            try:
                image = work.debug_image()
                assert image is not None
                lines, note = self._debug_info.read(work.module, image)
            except Exception as error:  # a bad file must not raise: the note reports it
                note = str(error)
            with self._changed:
                self._finish(work, lines, note)
        self._debug_info.rest()

    def _has_work(self) -> bool:
        return self._closing or bool(self._queue)
