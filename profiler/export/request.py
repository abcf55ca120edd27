"""Define the request for an export, the same for every format."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ..analysis.frame_filter import ALL_FRAMES, FrameFilter
from ..model import Clock
from ..profile.store import Profile
from ..symbols.names.table import SymbolTable


@dataclass(frozen=True)
class ExportRequest:
    """A profile and how to export it; ``flametap.export.write_file`` describes the fields."""

    profile: Profile
    table: SymbolTable
    clock: Clock = Clock.CPU
    thread_ids: frozenset[int] | None = None
    by_thread: bool = False
    unit: str = "time"
    frames: FrameFilter = ALL_FRAMES
    by_line: bool = False
    full_filenames: bool = False
    title: str = "flametap"
    notes: Sequence[str] = ()
    cost: Mapping[str, int | float | str] = field(default_factory=dict)

    @property
    def counts_samples(self) -> bool:
        """True when weights are numbers of stacks instead of nanoseconds."""
        return self.unit == "samples"
