"""Make what the timeline and the heat maps add up, chunk by chunk as the recording goes on.

Otherwise the first view of a long recording makes it for all chunks at once: two seconds for 10⁷
intervals. A step is cheap while there is nothing to make, and makes what one chunk needs else.
"""

from __future__ import annotations

from ..recording.profile.store import Profile
from .heat_sums import choose, prepare_heat
from .time_parts import Part
from .time_sums import TimeSums


class TimeAhead:
    """Makes it; see the module docstring. One thread calls it.

    Args:
        sums: of the profile.
        profile: its ``settled`` says when there is something to make.
    """

    def __init__(self, sums: TimeSums, profile: Profile) -> None:
        self._sums = sums
        self._profile = profile
        self._seen = (*profile.settled, sums.changes)
        self._n_hidden = 0
        self._done: set[Part] = set()

    def step(self) -> bool:
        """Make what one chunk needs, if any does; return whether more may be missing."""
        settled = (*self._profile.settled, self._sums.changes)
        if settled == self._seen:
            return False
        view = self._sums.look()
        chunks = view.parts[: len(view.now.intervals.chunks)]
        if len(view.now.hidden) != self._n_hidden:
            self._n_hidden = len(view.now.hidden)
            self._done.clear()
        self._done.intersection_update(chunks)
        missing = [part for part in chunks if part not in self._done]
        if missing:
            view.prepare(missing[-1])  # the newest are looked at first
            prepare_heat(view, choose(view, None), missing[-1])
            self._done.add(missing[-1])
        if len(missing) > 1:
            return True
        self._seen = settled
        return False
