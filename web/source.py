"""The Protocol through which the server reads a profile: a live capture, or the tests' fake."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from flametap.analysis.annotation import AnnotatedCode, AnnotatedSource, SymbolReport
from flametap.analysis.calltree import CallTree
from flametap.analysis.heat import Heat, HeatQuery
from flametap.analysis.lanes import LaneQuery, Lanes
from flametap.analysis.lock_places import LockPlaces
from flametap.analysis.lock_waits import LockWaits
from flametap.analysis.selection import Selection, Span
from flametap.model import ChildProcess, Function, Status, ThreadInfo


class ProfileSource(Protocol):
    """A profile that may still grow. Several threads may call its methods at the same time."""

    def status(self) -> Status:
        """Return state, counters, verdicts and symbols. Cheap enough for several calls a second."""
        ...

    def threads(self, span: Span | None = None) -> list[ThreadInfo]:
        """Return all threads of the target that have any weight, exited ones included.

        Args:
            span: the time that their weights are of; None for all.
        """
        ...

    def children(self) -> list[ChildProcess]:
        """Return the processes that the target has started, the busiest first."""
        ...

    @property
    def functions(self) -> Sequence[Function]:
        """Return the functions of all trees. The index of a function is its id and never changes:
        the sequence only grows at its end.
        """
        ...

    def function_id(self, function: Function, /) -> int:
        """Return the id of a function; a new one is added at the end."""
        ...

    def tree(self, selection: Selection) -> CallTree:
        """Return the current call tree of a selection."""
        ...

    def symbols(self, selection: Selection) -> SymbolReport:
        """Return each module's share of the profile, and how much of it has names."""
        ...

    def lines(self, function_id: int, selection: Selection) -> AnnotatedSource:
        """Return the weight of each line of a function, with its text; by its index in
        ``functions``.
        """
        ...

    def instructions(self, function_id: int, selection: Selection) -> AnnotatedCode:
        """Return the weight of each instruction of a function; by its index in ``functions``."""
        ...

    def lock_waits(self, selection: Selection, path: Sequence[int] | None) -> LockWaits:
        """Return who held the GIL during the waits of one box; ``path`` has its functions' ids.

        Without a path, during all waits.
        """
        ...

    def lock_places(self, selection: Selection) -> LockPlaces:
        """Return where threads wait for locks, with the texts of the lines that are known."""
        ...

    def lanes(self, query: LaneQuery) -> Lanes:
        """Return what threads did over time, in bins."""
        ...

    def heat(self, query: HeatQuery) -> Heat:
        """Return a heat map."""
        ...

    def wait_newer(self, revision: int, timeout_s: float) -> int:
        """Wait for a revision newer than the given one, at most ``timeout_s``.

        Return the current revision. A timeout of 0 does not wait.
        """
        ...

    def set_paused(self, paused: bool) -> None:
        """Stop taking samples, or resume."""
        ...

    def set_sampling(self, rate_hz: float, budget_percent: float) -> None:
        """Sample at another rate, or within another budget; 0 per cent is no limit.

        Raises:
            FlametapError: a number is out of bounds, or the recording has ended.
        """
