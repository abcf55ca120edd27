"""Find the classes of methods of Python 3.8 to 3.10 in their source files, in a thread of its own.

The thread starts with the first such method. Until a file is read, its functions have their bare
names. Files are opened with the target's rights, below its root; one that cannot be read, or is too
large, leaves the bare names.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence

from ...locate.open_file import Root
from ...locate.source_text import source_bytes
from ..request_thread import RequestThread
from .derived_names import MAX_SOURCE_BYTES, SourceNames

_MAX_KEPT = 128  # files whose definitions are kept: a thousand of them take 1 MB


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
        self._kept: OrderedDict[str, SourceNames | None] = OrderedDict()
        self._requests = RequestThread[str]("flametap-classes", self._answer, at_once=1)

    def ask(self, path: str) -> None:
        """Request the names of a file; each request gets an answer."""
        self._requests.ask([path])

    def close(self) -> None:
        """End the thread. Idempotent."""
        self._requests.close()

    def _answer(self, paths: list[str]) -> None:
        (path,) = paths
        if path not in self._kept:
            self._kept[path] = self._read(path)
            if len(self._kept) > _MAX_KEPT:
                self._kept.popitem(last=False)
        self._on_read(path, self._kept[path])

    def _read(self, path: str) -> SourceNames | None:
        data = source_bytes(path, self._roots, MAX_SOURCE_BYTES)
        # Names in another encoding than UTF-8 are in no text that we decode, so they stay bare.
        return None if data is None else SourceNames(data.decode("utf-8", "replace"))
