"""The views of a recording: threads, trees, code with weights, locks, and the timeline."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from ..locks.wait_causes import WaitCauses
from ..model import ThreadInfo
from ..recording.recording import Recording
from ..timeline.time_ahead import TimeAhead
from ..timeline.time_sums import TimeSums
from ..tree.selection import Selection, Span

if TYPE_CHECKING:
    # Imported when they are asked for: an attach does not wait for them.
    from ..code.annotation import AnnotatedCode, AnnotatedSource, SymbolReport
    from ..code.code_view import CodeView
    from ..locks.lock_places import LockPlaces
    from ..locks.lock_waits import LockWaits
    from ..timeline.heat import Heat, HeatQuery
    from ..timeline.lanes import LaneQuery, Lanes
    from ..tree.calltree import CallTree
    from ..tree.tree_builder import TreeBuilder


class Views:
    """The views of a recording, and what is kept between two of them. Any thread may call.

    Attributes:
        recording: what they are of.
    """

    def __init__(self, recording: Recording) -> None:
        self.recording = recording
        self._profile, self._names = recording.profile, recording.names
        self._time = TimeSums(self._profile.moments, WaitCauses(self._names))
        self._time_ahead = TimeAhead(self._time, self._profile)
        self._made_trees: TreeBuilder | None = None
        self._made_code: CodeView | None = None

    def prepare(self) -> bool:
        """Make a part of what a timeline adds up; return whether more may be missing."""
        return self._time_ahead.step()

    @property
    def _trees(self) -> TreeBuilder:
        if self._made_trees is None:
            from ..tree.tree_builder import TreeBuilder

            self._made_trees = TreeBuilder(self._profile, self._names)
        return self._made_trees

    @property
    def _code(self) -> CodeView:
        if self._made_code is None:
            from ..code.code_view import CodeView

            self._made_code = CodeView(self.recording)
        return self._made_code

    def threads(self, span: Span | None = None) -> list[ThreadInfo]:
        """Return all threads that have any weight, exited ones included.

        Args:
            span: the time that their weights are of; None for all.
        """
        profile = self._profile
        between = span.between(profile.start_ns, profile.now_ns) if span else None
        return profile.thread_infos(between)

    def tree(self, selection: Selection) -> CallTree:
        """Return the call tree of a selection."""
        return self._trees.build(selection)

    def symbols(self, selection: Selection) -> SymbolReport:
        """Return each module's share of a selection, and how much of it has names."""
        return self._code.symbols(selection)

    def lines(
        self,
        function_id: int,
        selection: Selection,
    ) -> AnnotatedSource:
        """Return the weight of each line of a function, with its text; by its id in
        ``Recording.functions``.
        """
        return self._code.lines(function_id, selection)

    def sources(self, ids: Sequence[int], selection: Selection) -> list[AnnotatedSource]:
        """Return the same for several functions; each file is read once."""
        return self._code.sources(ids, selection)

    def instructions(
        self,
        function_id: int,
        selection: Selection,
    ) -> AnnotatedCode:
        """Return the weight of each instruction of a function; by its id."""
        return self._code.instructions(function_id, selection)

    def lock_waits(
        self,
        selection: Selection,
        path: Sequence[int] | None,
    ) -> LockWaits:
        """Return who held the GIL during the waits of one box; ``path`` has its functions' ids.

        Without a path, during all waits.
        """
        from ..locks.lock_waits import lock_waits

        return lock_waits(self._profile, self._names, selection, path)

    def lock_places(self, selection: Selection) -> LockPlaces:
        """Return where threads wait for locks, with the texts of the lines that are known."""
        from ..locks.lock_places import lock_places, with_text

        found = lock_places(self._profile, self._names, selection)
        frames = [place.frame for place in found.places]
        texts = self._code.line_texts([frame for frame in frames if frame])
        places = [
            with_text(place, texts.get(place.frame, "") if place.frame else "")
            for place in found.places
        ]
        return replace(found, places=places)

    def lanes(self, query: LaneQuery) -> Lanes:
        """Return what threads did over time, in bins."""
        from ..timeline.lanes import lanes

        return lanes(self._time, query)

    def heat(self, query: HeatQuery) -> Heat:
        """Return a heat map."""
        from ..timeline.heat import heat

        return heat(self._time, query)


_LOCK = threading.Lock()


def views_of(recording: Recording) -> Views:
    """Return the views of a recording, always the same ones."""
    with _LOCK:
        if recording.views is None:
            recording.views = Views(recording)
        found: Views = recording.views
        return found
