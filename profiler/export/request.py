"""Define the request for an export, the same for every format."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ..analysis.calltree import CallTree, build
from ..analysis.selection import EVERYTHING, Selection
from ..model import Clock, Status
from ..profile.store import Profile
from ..symbols.names.table import SymbolTable


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
    def what(self) -> str:
        """What the weights are, in a few words."""
        what = f"{self.selection.clock.value} {'samples' if self.counts_samples else 'time'}"
        t0_ns, t1_ns = self.between_ns
        if t0_ns is not None and t1_ns is not None:
            begin, end = ((each - self.profile.start_ns) / 1e9 for each in (t0_ns, t1_ns))
            what += f" from {begin:g} s to {end:g} s"
        return f"{what} while holding the GIL" if self.selection.frames.only_gil else what

    def tree(self, clock: Clock | None = None) -> CallTree:
        """Build the call tree of what is counted.

        Args:
            clock: instead of that of the request.
        """
        t0_ns, t1_ns = self.between_ns
        return build(
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
