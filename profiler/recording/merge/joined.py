"""One recording of several that are made elsewhere and grow."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from ...model import Function, Process, Status, SymbolSource
from ...symbols.locate.source_text import SourceText
from ..code_source import Listing
from ..names.table import SymbolTable
from ..profile.store import Profile
from ..recording import Recording, machine
from ..revision import Revision
from .growing_part import GrowingPart, Whole
from .status import merged_meta, merged_status

NO_TEXT = "no recording has its lines"


class Joined:
    """See the module. Any thread may call.

    Args:
        parts: of each recording: itself, the process that it begins with, and what is added to its
            times. Nothing has been recorded yet.
        notes: on how they fit together.

    Attributes:
        recording: all of them.
    """

    def __init__(
        self, parts: Sequence[tuple[Recording, Process, int]], notes: Sequence[str] = ()
    ) -> None:
        self._notes = list(notes)
        self._changes = Revision(lambda: profile.revision, lambda: names.revision)
        profile = self._profile = Profile(self._changes.notify)
        names = SymbolTable(profile.locate, self._changes.notify)
        whole = Whole(profile, names)
        self._parts = [GrowingPart(*each, whole, at) for at, each in enumerate(parts)]
        self._lock = threading.Lock()
        self._is_over = False
        meta = merged_meta([recording.meta for recording, _, _ in parts], machine())
        code = _JoinedCode(self._parts, names)
        self.recording = Recording(profile, names, self.status, self._changes, meta, code)

    def step(self) -> None:
        """Add what they have gained."""
        with self._lock:
            for each in self._parts:
                each.step()

    def finish(self) -> None:
        """Add the rest; nothing more comes. Idempotent."""
        self.step()
        with self._lock:
            if not self._is_over:
                self._is_over = True
                self._profile.settle()
        self._changes.step()

    def status(self) -> Status:
        """Return the state of all."""
        profile = self._profile
        states = [each.recording.status() for each in self._parts]
        first = states[0]
        facts: dict[str, Any] = {
            "pid": first.pid,
            "command": first.command,
            "program": first.program,
            "host": ", ".join(dict.fromkeys(each.host for each in states)),
            "state": _state(states),
            "reason": _reason(states) if self._is_over else "",
            "revision": self._changes.current(),
            "duration_ns": profile.duration_ns,
            "samples": profile.samples,
            "is_final": self._is_over and all(each.is_final for each in states),
            "processes": sum(max(1, each.processes) for each in states),
        }
        parts = [each.part() for each in self._parts if each.recording.profile.start_ns]
        if not parts:
            return replace(first, **facts)
        damage = [each.damage for each in self._parts if each.damage]
        symbols = self.recording.code.sources()
        return replace(merged_status(parts, symbols, [*self._notes, *damage]), **facts)


def _state(states: Sequence[Status]) -> str:
    """Return the state of those that go on, if any does."""
    going_on = {each.state for each in states if not each.is_final}
    for state in ("recording", "paused", "attaching"):
        if state in going_on:
            return state
    return "ended"


def _reason(states: Sequence[Status]) -> str:
    """Return why they have ended."""
    return "; ".join(dict.fromkeys(each.reason for each in states if each.reason))


class _JoinedCode:
    """The code of several recordings. A ``CodeSource``."""

    def __init__(self, parts: Sequence[GrowingPart], names: SymbolTable) -> None:
        self._parts, self._names = parts, names

    def sources(self) -> list[SymbolSource]:
        """See ``CodeSource.sources``."""
        found: dict[int, SymbolSource] = {}
        for part in self._parts:
            for each in part.sources():
                found.setdefault(each.module_id, each)
        return list(found.values())

    def text(self, function: Function, file: str) -> SourceText:
        """See ``CodeSource.text``."""
        found = SourceText(None, NO_TEXT)
        number = self._names.function_id(function)
        for part in self._parts:
            if found.lines is None and part.has(number):
                found = part.recording.code.text(function, file)
        return found

    def listing(self, function: Function, module_id: int, addrs: npt.NDArray[np.int64]) -> Listing:
        """See ``CodeSource.listing``."""
        why = LookupError("its file is unknown")
        for part in self._parts:
            for local, number in list(part.modules.items()):
                if number == module_id:
                    try:
                        return part.recording.code.listing(function, local, addrs)
                    except LookupError as error:
                        why = error
        raise why
