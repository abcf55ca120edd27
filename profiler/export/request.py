"""Define the request for an export, the same for every format."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol

from ..model import Clock, Process, Split, Status, Thread
from ..recording.cost import Certificate
from ..recording.names.table import SymbolTable
from ..recording.profile.store import Profile
from ..recording.recording import Recording
from ..recording.summary import summary, title
from ..tree.calltree import CallTree, build
from ..tree.selection import EVERYTHING, Selection

_MAX_THREADS_NAMED = 3

StackShaper = Callable[[Sequence[int]], "list[int] | None"]
"""Takes and returns a stack: ids of functions, root first. None for one that does not count."""


class Shaping(Protocol):
    """How the stacks are shown: what is hidden, folded, focused on (``tree/shape.py``)."""

    @property
    def words(self) -> Sequence[str]:
        """What it does, a few words for each step."""
        ...

    def tree(self, tree: CallTree, /) -> CallTree:
        """Return a tree as it is shown."""
        ...

    def stacks(self, trees: Sequence[CallTree], /) -> StackShaper:
        """Return what does the same to single stacks of some trees; it folds no chains.

        Args:
            trees: of one recording, by the clocks that count; one at least.
        """
        ...


@dataclass(frozen=True)
class ExportRequest:
    """A recording and how to export it.

    Attributes:
        recording: what is exported.
        selection: what is counted: the clock, threads, time and frames. Its roots are added in
            formats that do not separate threads.
        unit: "time", or "samples" for numbers of stacks, of the whole time.
        by_line: separate the lines of a Python function.
        full_filenames: name Python files by their whole path, in formats that name them briefly.
        shaping: how the stacks are shown; None for all as they are.
    """

    recording: Recording
    selection: Selection = EVERYTHING
    unit: str = "time"
    by_line: bool = False
    full_filenames: bool = False
    shaping: Shaping | None = None

    @property
    def profile(self) -> Profile:
        """Threads, modules, stacks and intervals."""
        return self.recording.profile

    @property
    def names(self) -> SymbolTable:
        """The functions of the stacks."""
        return self.recording.names

    @cached_property
    def status(self) -> Status:
        """The state of the recording."""
        return self.recording.status()

    @cached_property
    def processes(self) -> Mapping[int, Process]:
        """All processes by number, one at least."""
        found = self.profile.processes
        if len(found) > 1:
            return found
        status = self.status
        return {0: Process(0, status.pid, status.program, status.command)}

    def process_of(self, thread: Thread) -> Process:
        """Return the process of a thread."""
        return self.processes.get(thread.process) or next(iter(self.processes.values()))

    @property
    def title(self) -> str:
        """A title for formats that have one."""
        return title(self.recording)

    @property
    def notes(self) -> Sequence[str]:
        """What was recorded, losses and doubts, one line each."""
        status = self.status
        order = [] if status.has_moments else ["the order of stacks means nothing: it is not known"]
        return [*summary(self.recording), *status.notes, *order]

    @property
    def cost(self) -> Mapping[str, int | float | str]:
        """The cost of the recording."""
        return Certificate.of(self.status).as_json()

    @property
    def counts_samples(self) -> bool:
        """True when weights are numbers of stacks instead of nanoseconds."""
        return self.unit == "samples"

    @property
    def shown_clock(self) -> Clock:
        """The clock of the weights; see ``Status.shown_clock``."""
        return self.status.shown_clock(self.selection.clock)

    @property
    def counted(self) -> str:
        """What is counted where weights are no time: "samples", "bytes"; "" for nanoseconds."""
        return "samples" if self.counts_samples else self.status.counted

    @property
    def between_ns(self) -> tuple[int | None, int | None]:
        """The range of time, CLOCK_MONOTONIC of the target; (None, None) for all."""
        return self.selection.between(self.profile.start_ns, self.profile.now_ns)

    @property
    def duration_ns(self) -> int:
        """The length of what is counted."""
        t0_ns, t1_ns = self.between_ns
        start_ns = self.profile.start_ns if t0_ns is None else t0_ns
        end_ns = self.profile.now_ns if t1_ns is None else min(t1_ns, self.profile.now_ns)
        return max(0, end_ns - start_ns)

    @property
    def started_at_ns(self) -> int:
        """When what is counted began, nanoseconds since 1970; of a file that does not say it, 0."""
        started_s, start_ns = self.status.started_s, self.profile.start_ns
        return round(started_s * 1e9) + (self.between_ns[0] or start_ns) - start_ns

    @property
    def program(self) -> str:
        """The program's name, without folders and arguments; "" if it is unknown."""
        command = self.status.command
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
        what = self.status.weights or f"{self.shown_clock.value} {unit}"
        return "; ".join((what, *self.part)) if self.part else f"{what} of the whole recording"

    def without_roots(self) -> ExportRequest:
        """Return the same without frames for threads, processes or programs."""
        return replace(self, selection=replace(self.selection, split=Split.NONE))

    def tree(self, clock: Clock | None = None) -> CallTree:
        """Build the call tree of what is counted, as it is shown.

        Args:
            clock: instead of that of the request.
        """
        t0_ns, t1_ns = self.between_ns
        tree = build(
            self.profile,
            self.names,
            clock or self.selection.clock,
            self.selection.thread_ids,
            split=self.selection.split,
            t0_ns=t0_ns,
            t1_ns=t1_ns,
            count_samples=self.counts_samples,
            frames=self.selection.frames,
            by_line=self.by_line,
        )
        return self.shaping.tree(tree) if self.shaping else tree
