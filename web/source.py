"""What the web needs from a profile: one Protocol, met by a live capture and by the tests' fake."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from flametap.analysis.annotation import AnnotatedCode, AnnotatedSource, SymbolReport
from flametap.analysis.calltree import CallTree
from flametap.model import Clock, Function, Status, ThreadInfo


class ProfileSource(Protocol):
    """A profile that may still grow. Every method may be called from several threads at once."""

    def status(self) -> Status:
        """State, counters, verdicts, symbols; cheap enough for several calls a second."""
        ...

    def threads(self) -> list[ThreadInfo]:
        """All threads of the target that have any weight, exited ones included."""
        ...

    @property
    def functions(self) -> Sequence[Function]:
        """The functions of all trees. An index in it is a function's id and stays valid for good:
        it grows at its end and never changes otherwise.
        """
        ...

    def tree(self, clock: Clock, thread_ids: frozenset[int] | None) -> CallTree:
        """The call tree as of now; None means all threads."""
        ...

    def symbols(self, clock: Clock, thread_ids: frozenset[int] | None) -> SymbolReport:
        """What part of the profile each module holds, and how much of that has names."""
        ...

    def lines(
        self, function_id: int, clock: Clock, thread_ids: frozenset[int] | None
    ) -> AnnotatedSource:
        """What each line of a function weighs, with its text; by its index in ``functions``."""
        ...

    def instructions(
        self, function_id: int, clock: Clock, thread_ids: frozenset[int] | None
    ) -> AnnotatedCode:
        """What each instruction of a function weighs; by its index in ``functions``."""
        ...

    def wait_newer(self, revision: int, timeout_s: float) -> int:
        """Block until the revision is newer than the given one; return the current one.

        Returns at the timeout as well; a timeout of 0 only asks.
        """
        ...

    def set_paused(self, paused: bool) -> None:
        """Stop taking samples, or go on."""
