"""Find the classes of methods of Python 3.8 to 3.10 in their source files, in a thread of its own.

The thread starts with the first such method. Until a file is read, its functions have their bare
names. Files are opened with the target's rights, below its root; one that cannot be read, or is too
large, leaves the bare names.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence

from ...locate.open_file import Root
from ...locate.source_text import source_bytes
from .derived_names import MAX_SOURCE_BYTES, SourceNames

_MAX_KEPT = 128  # files whose definitions are kept: a thousand of them take 1 MB
_CLOSE_TIMEOUT_S = 0.5  # the file system may not answer


class ClassFinder:
    """Reads source files one after the other.

    Args:
        roots: where the paths of the target are valid.
        on_read: called in the thread with a path and what its file defines; None if it cannot be
            read.
    """

    def __init__(
        self, roots: Sequence[Root], on_read: Callable[[str, SourceNames | None], None]
    ) -> None:
        self._roots = roots
        self._on_read = on_read
        self._changed = threading.Condition()
        self._wanted: list[str] = []
        self._thread: threading.Thread | None = None
        self._closing = False
        self._kept: OrderedDict[str, SourceNames | None] = OrderedDict()

    def ask(self, path: str) -> None:
        """Request the names of a file; each request gets an answer."""
        with self._changed:
            if self._closing:
                return
            self._wanted.append(path)
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._run, name="flametap-classes", daemon=True
                )
                self._thread.start()
            self._changed.notify_all()

    def close(self) -> None:
        """End the thread. Idempotent."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
            thread = self._thread
        if thread is not None:
            thread.join(timeout=_CLOSE_TIMEOUT_S)

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._closing or self._wanted)
                if self._closing:
                    return
                path = self._wanted.pop(0)
            if path not in self._kept:
                self._kept[path] = self._read(path)
                if len(self._kept) > _MAX_KEPT:
                    self._kept.popitem(last=False)
            self._on_read(path, self._kept[path])

    def _read(self, path: str) -> SourceNames | None:
        data = source_bytes(path, self._roots, MAX_SOURCE_BYTES)
        # Names in another encoding than UTF-8 are in no text that we decode, so they stay bare.
        return None if data is None else SourceNames(data.decode("utf-8", "replace"))
