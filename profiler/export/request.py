"""Define the request for an export, the same for every format."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from ..analysis.annotation import AnnotatedSource
from ..analysis.calltree import CallTree, build
from ..analysis.heat import Heat, HeatQuery
from ..analysis.lanes import LaneQuery, Lanes
from ..analysis.selection import EVERYTHING, Selection
from ..model import Clock, Status
from ..profile.store import Profile
from ..symbols.names.table import SymbolTable

_MAX_THREADS_NAMED = 3

StackShaper = Callable[[Sequence[int]], "list[int] | None"]
"""Takes and returns a stack: ids of functions, root first. None for one that does not count."""


class Shaping(Protocol):
    """How the stacks are shown: what is hidden, folded, focused on (``analysis/shape.py``)."""

    @property
    def words(self) -> Sequence[str]:
        """What it does, a few words for each step."""
        ...

    def tree(self, tree: CallTree, /) -> CallTree:
        """Return a tree as it is shown."""
        ...

    def stacks(self, tree: CallTree, /) -> StackShaper:
        """Return what does the same to single stacks of a tree; it folds no chains."""
        ...


class RecordingViews(Protocol):
    """What a report has beside trees (``capture.views``)."""

    def lanes(self, query: LaneQuery, /) -> Lanes:
        """Return what threads did over time, in bins."""
        ...

    def heat(self, query: HeatQuery, /) -> Heat:
        """Return a heat map."""
        ...

    def sources(self, ids: Sequence[int], selection: Selection, /) -> list[AnnotatedSource]:
        """Return the lines of functions with their weights, by their ids."""
        ...


@dataclass(frozen=True)
class ExportRequest:
    """A profile and how to export it.

    Attributes:
        profile: the recording.
        table: the names.
        selection: what is counted: the clock, threads, time and frames.
        by_thread: add a root frame per thread, in formats that do not separate threads.
        unit: "time", or "samples" for numbers of stacks, of the whole time.
        by_line: separate the lines of a Python function.
        full_filenames: name Python files by their whole path, in formats that name them briefly.
        title: a title for the profile, in formats that have one.
        notes: losses and doubts, one line each, in formats that can hold them.
        cost: the cost of the recording (``Certificate.as_json``), in formats that can hold it.
        status: the state of the recording, in formats that show it.
        shaping: how the stacks are shown; None for all as they are.
        views: has the timeline and the code, for reports; None for reports without.
    """

    profile: Profile
    table: SymbolTable
    selection: Selection = EVERYTHING
    by_thread: bool = False
    unit: str = "time"
    by_line: bool = False
    full_filenames: bool = False
    title: str = "flametap"
    notes: Sequence[str] = ()
    cost: Mapping[str, int | float | str] = field(default_factory=dict)
    status: Status | None = None
    shaping: Shaping | None = None
    views: RecordingViews | None = None

    @property
    def counts_samples(self) -> bool:
        """True when weights are numbers of stacks instead of nanoseconds."""
        return self.unit == "samples"

    @property
    def between_ns(self) -> tuple[int | None, int | None]:
        """The range of time, CLOCK_MONOTONIC of the target; (None, None) for all."""
        return self.selection.between(self.profile.start_ns, self.profile.now_ns)

    @property
    def program(self) -> str:
        """The program's name, without folders and arguments; "" if it is unknown."""
        command = self.status.command if self.status else ""
        return command.partition(" ")[0].rpartition("/")[2]

    @property
    def part(self) -> Sequence[str]:
        """Which part of the recording it is, a few words each; empty for the whole."""
        profile, selection = self.profile, self.selection
        words = []
        t0_ns, t1_ns = self.between_ns
        if t0_ns is not None and t1_ns is not None:
            begin, end = ((each - profile.start_ns) / 1e9 for each in (t0_ns, t1_ns))
            words.append(f"{begin:g} s to {end:g} s of the recording")
        if selection.thread_ids is not None:
            threads = profile.threads
            names = [threads[i].name for i in sorted(selection.thread_ids) if i in threads]
            more = len(names) - _MAX_THREADS_NAMED
            shown = ", ".join(names[:_MAX_THREADS_NAMED])
            words.append(f"only {shown}{f' and {more} more threads' if more > 0 else ''}")
        if selection.frames.language.value != "all":
            words.append(f"only {selection.frames.language.value.capitalize()} functions")
        if selection.frames.only_gil:
            words.append("only while holding the GIL")
        return [*words, *(self.shaping.words if self.shaping else ())]

    @property
    def what(self) -> str:
        """What the weights are and of which part, in a few words."""
        unit = "samples" if self.counts_samples else "time"
        what = f"{self.selection.clock.value} {unit}"
        return "; ".join((what, *self.part)) if self.part else f"{what} of the whole recording"

    def tree(self, clock: Clock | None = None) -> CallTree:
        """Build the call tree of what is counted, as it is shown.

        Args:
            clock: instead of that of the request.
        """
        t0_ns, t1_ns = self.between_ns
        tree = build(
            self.profile,
            self.table,
            clock or self.selection.clock,
            self.selection.thread_ids,
            self.by_thread,
            t0_ns=t0_ns,
            t1_ns=t1_ns,
            count_samples=self.counts_samples,
            frames=self.selection.frames,
            by_line=self.by_line,
        )
        return self.shaping.tree(tree) if self.shaping else tree
