"""The options that choose which part of a recording is shown: ``--clock`` and its like."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..model import Clock, Split
from .frame_options import ALL_FRAMES, FrameOptions, frame_options
from .options import by_options, clock_option, part_options

if TYPE_CHECKING:
    from ..recording.recording import Recording
    from ..tree.selection import Selection


@dataclass(frozen=True)
class OutputOptions:
    """Which part of the recording goes into the files."""

    clock: Clock = Clock.CPU
    by: str = ""  # what stacks begin with (``tree.selection.Split``)
    unit: str = "time"  # or "samples"
    tids: tuple[int, ...] = ()
    thread_name: re.Pattern[str] | None = None
    shown: FrameOptions = ALL_FRAMES
    span_s: tuple[float, float | None] | None = None  # only from, to (None: the end); None for all
    with_sources: bool = True  # in a file of the whole recording
    shape: str = ""  # steps (``tree.shaper``)
    keep_s: float | None = None  # only the last so many seconds in it
    push: str | None = None  # a profile store that gets it while it is made …
    labels: tuple[tuple[str, str], ...] = ()  # … with these
    has_page: bool = False  # the page shows every clock, so there is no --clock to choose one

    @property
    def waiting_is_shown_by(self) -> str:
        """The clock that shows what a sleeping process waits for; "" if it is chosen already."""
        if self.has_page:
            return "the wall clock of the page"
        return "--clock wall" if self.clock is Clock.CPU else ""

    def thread_ids(self, recording: Recording) -> frozenset[int] | None:
        """Return the ids of the selected threads; None for all."""
        if not self.tids and self.thread_name is None:
            return None
        return frozenset(
            thread.thread_id
            for thread in recording.profile.thread_infos()
            if thread.tid in self.tids
            or (self.thread_name is not None and self.thread_name.search(thread.name))
        )

    def selection(self, recording: Recording) -> Selection:
        """Return the same for what counts weights."""
        from ..tree.selection import Selection, Span

        span = None
        if self.span_s is not None:
            start_s, end_s = self.span_s
            span = Span(round(start_s * 1e9), None if end_s is None else round(end_s * 1e9))
        threads, split = self.thread_ids(recording), Split(self.by)
        return Selection(self.clock, threads, self.shown.frames, span, split)


def shown_options(*, files: bool) -> Callable[[Callable[..., int]], Callable[..., int]]:
    """Add the options; the command receives them as one ``shown``.

    Args:
        files: add those for the stacks in files, too: ``--by``, ``--lines``, ``--gil``.
    """

    def decorate(command: Callable[..., int]) -> Callable[..., int]:
        command = part_options(frame_options(lines=files)(_with_part(command)))
        return clock_option(by_options(command) if files else command)

    return decorate


def _with_part(command: Callable[..., int]) -> Callable[..., int]:
    """Pass the options to the command as one ``shown``."""

    @functools.wraps(command)
    def with_part(
        *,
        clock: str,
        tids: tuple[int, ...],
        thread_name: re.Pattern[str] | None,
        span: tuple[float, float | None] | None,
        shown: FrameOptions,
        by_thread: bool = False,
        by: str | None = None,
        **others: object,
    ) -> int:
        by = "thread" if by_thread else by or ""
        part = OutputOptions(Clock(clock), by, "time", tids, thread_name, shown, span)
        return command(shown=part, **others)

    return with_part
