"""What a view is compared with: another range of time, all the rest, or another recording."""

from __future__ import annotations

from dataclasses import dataclass, replace

from flametap.model import Status
from flametap.tree.calltree import CallTree
from flametap.tree.comparison import Sizes, sample_ns_of
from flametap.tree.selection import Selection, Span


@dataclass(frozen=True)
class Baseline:
    """What a view is compared with.

    Attributes:
        span: the other range of time; None for the rest of the recording, or another recording.
        is_share: True compares shares of each range's time, False time per second of each range.
        is_both: True makes boxes as wide as in both ranges together.
        file: the number of another recording, to compare with the whole of it; 0 for the first
            other one, None for none.
    """

    span: Span | None = None
    is_share: bool = True
    is_both: bool = False
    file: int | None = None

    @property
    def is_file(self) -> bool:
        """True for another recording."""
        return self.file is not None

    @property
    def is_rest(self) -> bool:
        """True for all time outside the view's own range."""
        return self.span is None and not self.is_file

    def other(self, selection: Selection) -> Selection:
        """Return what is counted there; of the rest, everything; of a file, of all threads."""
        if self.is_file:
            return replace(selection, span=None, thread_ids=None)
        return replace(selection, span=self.span)


def sizes_of(
    tree: CallTree, selection: Selection, baseline: Baseline, status: Status, other: Status
) -> Sizes:
    """Return what the weights of a joined tree are compared by.

    Args:
        tree: it.
        selection: what is counted here.
        baseline: what it is compared with.
        status: of the recording.
        other: of the recording that it is compared with: the same, unless that is a file.
    """
    here, there = tree.sides
    sample_ns = sample_ns_of(selection.clock, status, other)
    if baseline.is_share:
        return Sizes(float(here.sum()), float(there.sum()), sample_ns, True)
    here_ns = _length_ns(selection.span, status)
    there_ns = _length_ns(baseline.span, other)
    if baseline.is_rest:
        there_ns = max(0.0, there_ns - here_ns)
    return Sizes(here_ns, there_ns, sample_ns, False)


def _length_ns(span: Span | None, status: Status) -> float:
    if span is None:
        return float(status.duration_ns)
    begin, end = span.between(0, status.duration_ns)
    return float(max(0, min(end, status.duration_ns) - begin))
