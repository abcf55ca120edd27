"""Say what is counted: by which clock, of which threads, in which time, in which frames.

One object travels from the page's request to the sums, so that another filter is another field.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..model import Clock, Split
from .frame_filter import ALL_FRAMES, FrameFilter


@dataclass(frozen=True)
class Span:
    """A range of time, in nanoseconds since the start of the recording.

    Attributes:
        start_ns: a negative one counts back from now: the last seconds, rolling while recording.
        end_ns: None for now.
    """

    start_ns: int
    end_ns: int | None = None

    def between(self, start_ns: int, now_ns: int) -> tuple[int, int]:
        """Return the range as two times of the target's CLOCK_MONOTONIC, nanoseconds.

        Args:
            start_ns: of the recording.
            now_ns: time of its last batch.
        """
        end = now_ns if self.end_ns is None else start_ns + self.end_ns
        begin = now_ns + self.start_ns if self.start_ns < 0 else start_ns + self.start_ns
        return max(start_ns, begin), max(start_ns, end)


@dataclass(frozen=True)
class Selection:
    """What is counted; see the module docstring.

    Attributes:
        clock: the clock of the weights.
        thread_ids: only these threads; None for all.
        frames: which frames are shown, in which stacks.
        span: only this range of time; None for the whole recording.
        split: what is shown apart.
    """

    clock: Clock = Clock.CPU
    thread_ids: frozenset[int] | None = None
    frames: FrameFilter = ALL_FRAMES
    span: Span | None = None
    split: Split = Split.NONE

    def between(self, start_ns: int, now_ns: int) -> tuple[int | None, int | None]:
        """Return the range of time, as ``Span.between``; (None, None) for the whole recording."""
        if self.span is None:
            return None, None
        return self.span.between(start_ns, now_ns)


EVERYTHING = Selection()
"""The CPU time of the whole recording."""
