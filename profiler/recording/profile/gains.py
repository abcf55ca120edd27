"""Define what a profile has gained since a moment: what a file keeps, piece by piece. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeVar

from ...model import Module, Process, Thread
from .intervals import NewRows
from .stack_columns import FIRST, Mark, StackColumns

Each = TypeVar("Each", Process, Thread, Module)


def new_in(now: Sequence[Each], before: Sequence[Each]) -> list[Each]:
    """Return what was not there before, in the order of now: first seen, first listed."""
    known = {*before}
    return [each for each in now if each not in known]


class GainMark(NamedTuple):
    """The moment up to which a reader knows a profile; only ``Profile`` makes one."""

    stacks: Mark = FIRST
    n_cells: int = 0
    threads: tuple[Thread, ...] = ()
    modules: tuple[Module, ...] = ()
    hidden: frozenset[int] = frozenset()
    processes: tuple[Process, ...] = ()


class Gains(NamedTuple):
    """What has been added or changed after a mark.

    The ids of threads in ``hidden`` are of threads that are not the target's: their weight is
    removed after ``rows`` were added.
    """

    stacks: StackColumns
    rows: NewRows
    threads: list[Thread]
    modules: list[Module]
    hidden: list[int]
    start_ns: int  # of the recording so far
    mark: GainMark
    processes: Sequence[Process] = ()

    @property
    def is_empty(self) -> bool:
        """True if only time has passed."""
        columns = self.stacks.addresses, self.stacks.parent, self.stacks.node, self.rows.ended
        has_rows = any(len(each) for each in columns)
        return not (has_rows or self.threads or self.modules or self.hidden or self.processes)
