"""Gather the threads that share a lane of a timeline: those of a process, or of a program."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ..model import Split, Thread
from ..recording.profile.moments import Moments
from ..recording.profile.roster import owner_name

Bools = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]
Indexes = npt.NDArray[np.intp]


@dataclass(frozen=True)
class LaneGroups:
    """Which threads share a lane. Threads are indexes (``cell_keys``); groups are numbered.

    Attributes:
        of: the group of each thread.
        lead: the first thread of each group: its id stands for the group.
        name: returns the name of a group, from its lead; None if each thread has its own.
    """

    of: Indexes
    lead: Indexes
    name: Callable[[Thread], str] | None

    def sums(self, of_threads: Floats) -> Floats:
        """Return the sums of the threads of each group: a row for each."""
        found = np.zeros((len(self.lead), *of_threads.shape[1:]))
        np.add.at(found, self.of, of_threads)
        return found

    def have(self, threads: Bools) -> Bools:
        """Return whether each group has one of some threads."""
        found: Bools = np.bincount(self.of[threads], minlength=len(self.lead)) > 0
        return found

    def shown(self, threads: Bools, busy: Bools) -> Bools:
        """Return which of some threads are drawn: beside busy ones in a lane, the others are not.

        A process with one busy thread of twenty would look idle.
        """
        return threads & (busy | ~self.have(threads & busy)[self.of])


def lane_groups(thread_ids: npt.NDArray[np.int64], now: Moments, split: Split) -> LaneGroups:
    """Return the groups of threads, by their ids in the order of their indexes.

    Args:
        thread_ids: of all threads.
        now: says what they are of.
        split: what has a lane.
    """
    if split in (Split.NONE, Split.THREAD):
        own = np.arange(len(thread_ids))
        return LaneGroups(own, own, None)
    titles = now.titles if split is Split.PROCESS else None

    def name(thread: Thread) -> str:
        return owner_name(thread, now.processes, titles)

    threads = now.threads
    names = [name(threads.get(each) or Thread(each, 0, "")) for each in thread_ids.tolist()]
    number: dict[str, int] = {}
    of = np.array([number.setdefault(each, len(number)) for each in names], np.intp)
    _, lead = np.unique(of, return_index=True)
    return LaneGroups(of, lead, name)
