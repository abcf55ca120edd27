"""The source texts and instructions of a recording that is made elsewhere: they are asked for."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from ..model import Function, SymbolSource
from ..recording.code_source import CodeSource, Listing
from ..symbols.locate.source_text import SourceText

AGAIN_S = 2.0  # between two questions: each brings all that is known


class FarCode:
    """A ``CodeSource``.

    Args:
        kept: returns what has come so far.
        sources: returns the source of the names of each module, as the last state has it.
        fetch: lets all come that is known there; returns False if it does not.
    """

    def __init__(
        self,
        kept: Callable[[], CodeSource],
        sources: Callable[[], list[SymbolSource]],
        fetch: Callable[[], bool],
    ) -> None:
        self._kept, self._sources, self._fetch = kept, sources, fetch
        self._asked_s = -AGAIN_S
        self._asked: set[object] = set()  # what did not come
        self._lock = threading.Lock()

    def sources(self) -> list[SymbolSource]:
        """See ``CodeSource.sources``."""
        return self._sources()

    def text(self, function: Function, file: str) -> SourceText:
        """See ``CodeSource.text``."""
        found = self._kept().text(function, file)
        if found.lines is None and self._ask((function.module, file)):
            found = self._kept().text(function, file)
        return found

    def listing(self, function: Function, module_id: int, addrs: Any) -> Listing:
        """See ``CodeSource.listing``."""
        try:
            return self._kept().listing(function, module_id, addrs)
        except LookupError:
            if not self._ask((function, module_id)):
                raise
        return self._kept().listing(function, module_id, addrs)

    def _ask(self, what: object) -> bool:
        with self._lock:
            if what in self._asked or time.monotonic() - self._asked_s < AGAIN_S:
                return False
            self._asked.add(what)
            has_come = self._fetch()
            self._asked_s = time.monotonic()
            return has_come
