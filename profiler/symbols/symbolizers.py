"""The symbolizers of all processes of a recording, as one."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..model import SymbolSource

if TYPE_CHECKING:
    # Imported while the attach is under way, which does not wait for them.
    from .locate.open_file import Root
    from .locate.source_text import SourceText
    from .module_work import ModuleWork
    from .symbolizer import Symbolizer


class Symbolizers:
    """See the module. All have the same ``modules``. Any thread may call."""

    def __init__(self) -> None:
        self._each: tuple[Symbolizer, ...] = ()

    def add(self, symbolizer: Symbolizer) -> None:
        """Add that of a process."""
        self._each = (*self._each, symbolizer)

    @property
    def pending(self) -> int:
        """The number of addresses without their final names."""
        own = sum(each.own_pending for each in self._each)
        return own + (self._each[0].modules.pending if self._each else 0)

    @property
    def is_idle(self) -> bool:
        """True if all addresses of added modules have final names, and all modules final notes."""
        return all(each.is_idle for each in self._each)

    @property
    def note(self) -> str:
        """A note about all modules, ``""`` if there is none."""
        return self._each[0].note if self._each else ""

    def hurry(self) -> None:
        """Somebody waits for names: they are read at a normal priority from now on."""
        if self._each:
            self._each[0].hurry()

    def wait_idle(self, timeout_s: float) -> bool:
        """Wait until all is named as far as it can be; return False after a timeout."""
        deadline = time.monotonic() + timeout_s
        return all(each.wait_idle(max(0.0, deadline - time.monotonic())) for each in self._each)

    def sources(self) -> list[SymbolSource]:
        """Return the sources of names of each module that occurs in a stack."""
        found = self._each[0].modules.sources() if self._each else []
        for each in self._each:
            found += [source for source in each.own_sources() if source not in found]
        return found

    def work_on(self, module_id: int) -> ModuleWork | None:
        """Return the state of a module; None if it was not added."""
        return self._each[0].work_on(module_id) if self._each else None

    @property
    def roots(self) -> Sequence[Root]:
        """Where a path of the target is valid: its root, if it is known."""
        return self._each[0].roots if self._each else ()

    def embedded_text(self, file: str) -> SourceText | None:
        """Return a source's text as a source map of a target has it; None if none has."""
        for each in self._each:
            text = each.embedded_text(file)
            if text is not None:
                return text
        return None

    def mapped_ns(self, file: str) -> int:
        """Return when the source map was written that names a source (Unix, ns); 0 if unknown."""
        return max((each.mapped_ns(file) for each in self._each), default=0)

    def close(self) -> None:
        """End the threads and close all files. Names that are missing then will not be found."""
        for each in self._each:
            each.close()
        if self._each:
            self._each[0].modules.close()
