"""What the page asks of a recording, apart from its status: threads, trees, code with weights."""

from __future__ import annotations

from collections.abc import Sequence

from ..analysis.annotation import AnnotatedCode, AnnotatedSource, SymbolReport
from ..analysis.calltree import CallTree, build
from ..analysis.code_view import CodeView
from ..analysis.frame_filter import ALL_FRAMES, FrameFilter
from ..analysis.lock_waits import LockWaits, lock_waits
from ..model import Clock, Function, ThreadInfo
from ..profile.store import Profile
from ..symbols import Symbolizer
from ..symbols.names.table import SymbolTable


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
        self.use_symbolizer(None)

    def use_symbolizer(self, symbolizer: Symbolizer | None) -> None:
        """Set the source of the names."""
        self.symbolizer = symbolizer
        self._code = CodeView(self.profile, self.table, symbolizer)

    def threads(self) -> list[ThreadInfo]:
        """See ``ProfileSource.threads``."""
        return self.profile.thread_infos()

    @property
    def functions(self) -> Sequence[Function]:
        """See ``ProfileSource.functions``."""
        return self.table.functions

    def tree(
        self,
        clock: Clock,
        thread_ids: frozenset[int] | None = None,
        frames: FrameFilter = ALL_FRAMES,
    ) -> CallTree:
        """See ``ProfileSource.tree``."""
        return build(self.profile, self.table, clock, thread_ids, frames=frames)

    def symbols(
        self,
        clock: Clock,
        thread_ids: frozenset[int] | None = None,
        frames: FrameFilter = ALL_FRAMES,
    ) -> SymbolReport:
        """See ``ProfileSource.symbols``."""
        return self._code.symbols(clock, thread_ids, frames)

    def lines(
        self,
        function_id: int,
        clock: Clock,
        thread_ids: frozenset[int] | None = None,
        frames: FrameFilter = ALL_FRAMES,
    ) -> AnnotatedSource:
        """See ``ProfileSource.lines``."""
        return self._code.lines(function_id, clock, thread_ids, frames)

    def instructions(
        self,
        function_id: int,
        clock: Clock,
        thread_ids: frozenset[int] | None = None,
        frames: FrameFilter = ALL_FRAMES,
    ) -> AnnotatedCode:
        """See ``ProfileSource.instructions``."""
        return self._code.instructions(function_id, clock, thread_ids, frames)

    def lock_waits(
        self,
        thread_ids: frozenset[int] | None,
        frames: FrameFilter,
        path: Sequence[int],
    ) -> LockWaits:
        """See ``ProfileSource.lock_waits``."""
        return lock_waits(self.profile, self.table, thread_ids, path, frames)
