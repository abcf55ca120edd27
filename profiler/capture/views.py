"""What the page asks of a recording, apart from its status: threads, trees, code with weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from ..analysis.selection import Selection, Span
from ..analysis.wait_causes import WaitCauses
from ..model import ChildProcess, Function, ThreadInfo
from ..profile.store import Profile
from ..profile.time_ahead import TimeAhead
from ..profile.time_sums import TimeSums
from ..symbols.names.table import SymbolTable

if TYPE_CHECKING:
    # Imported when they are asked for: an attach does not wait for them.
    from ..analysis.annotation import AnnotatedCode, AnnotatedSource, SymbolReport
    from ..analysis.calltree import CallTree
    from ..analysis.code_source import CodeSource
    from ..analysis.code_view import CodeView
    from ..analysis.heat import Heat, HeatQuery
    from ..analysis.lanes import LaneQuery, Lanes
    from ..analysis.lock_places import LockPlaces
    from ..analysis.lock_waits import LockWaits
    from ..analysis.tree_builder import TreeBuilder
    from ..symbols.symbolizer import Symbolizer


class Views:
    """Views of a profile with its names. ``ProfileSource`` describes the methods.

    Attributes:
        profile: the recording so far.
        table: the names known so far.
        symbolizer: the source of the names; None before the attach.
    """

    def __init__(self, profile: Profile, table: SymbolTable) -> None:
        self.profile = profile
        self.table = table
        self._time = TimeSums(profile.moments, WaitCauses(table))
        self._time_ahead = TimeAhead(self._time, profile)
        self.use_symbolizer(None)

    def use_symbolizer(self, symbolizer: Symbolizer | None) -> None:
        """Set the source of the names."""
        self.symbolizer = symbolizer
        self._made_trees: TreeBuilder | None = None
        self._made_code: CodeView | None = None

    @property
    def _trees(self) -> TreeBuilder:
        if self._made_trees is None:
            from ..analysis.tree_builder import TreeBuilder

            self._made_trees = TreeBuilder(self.profile, self.table)
        return self._made_trees

    @property
    def _code(self) -> CodeView:
        if self._made_code is None:
            from ..analysis.code_view import CodeView

            self._made_code = CodeView(self.profile, self.table, self.code_source())
        return self._made_code

    def code_source(self) -> CodeSource:
        """Return where texts and instructions come from."""
        from ..analysis.live_code import LiveCode

        return LiveCode(self.profile, self.symbolizer)

    def threads(self, span: Span | None = None) -> list[ThreadInfo]:
        """See ``ProfileSource.threads``."""
        profile = self.profile
        between = span.between(profile.start_ns, profile.now_ns) if span else None
        return profile.thread_infos(between)

    def children(self) -> list[ChildProcess]:
        """See ``ProfileSource.children``. Without a live process there are none."""
        return []

    @property
    def functions(self) -> Sequence[Function]:
        """See ``ProfileSource.functions``."""
        return self.table.functions

    def function_id(self, function: Function) -> int:
        """See ``ProfileSource.function_id``."""
        return self.table.function_id(function)

    def tree(
        self,
        selection: Selection,
    ) -> CallTree:
        """See ``ProfileSource.tree``."""
        return self._trees.build(selection)

    def symbols(
        self,
        selection: Selection,
    ) -> SymbolReport:
        """See ``ProfileSource.symbols``."""
        return self._code.symbols(selection)

    def lines(
        self,
        function_id: int,
        selection: Selection,
    ) -> AnnotatedSource:
        """See ``ProfileSource.lines``."""
        return self._code.lines(function_id, selection)

    def sources(self, ids: Sequence[int], selection: Selection) -> list[AnnotatedSource]:
        """See ``export.RecordingViews.sources``."""
        return self._code.sources(ids, selection)

    def instructions(
        self,
        function_id: int,
        selection: Selection,
    ) -> AnnotatedCode:
        """See ``ProfileSource.instructions``."""
        return self._code.instructions(function_id, selection)

    def lock_waits(
        self,
        selection: Selection,
        path: Sequence[int] | None,
    ) -> LockWaits:
        """See ``ProfileSource.lock_waits``."""
        from ..analysis.lock_waits import lock_waits

        return lock_waits(self.profile, self.table, selection, path)

    def lock_places(self, selection: Selection) -> LockPlaces:
        """See ``ProfileSource.lock_places``."""
        from ..analysis.lock_places import lock_places, with_text

        found = lock_places(self.profile, self.table, selection)
        frames = [place.frame for place in found.places]
        texts = self._code.line_texts([frame for frame in frames if frame])
        places = [
            with_text(place, texts.get(place.frame, "") if place.frame else "")
            for place in found.places
        ]
        return replace(found, places=places)

    def lanes(self, query: LaneQuery) -> Lanes:
        """See ``ProfileSource.lanes``."""
        from ..analysis.lanes import lanes

        return lanes(self._time, query)

    def heat(self, query: HeatQuery) -> Heat:
        """See ``ProfileSource.heat``."""
        from ..analysis.heat import heat

        return heat(self._time, query)
