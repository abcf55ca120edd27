"""Define what the page may change while a recording is made."""

from __future__ import annotations

from typing import Protocol

from flametap.model import ChildProcess


class Controls(Protocol):
    """The recorder of a process that is being recorded. Any thread may call."""

    def set_paused(self, paused: bool) -> None:
        """Stop taking samples, or resume."""
        ...

    def set_sampling(self, rate_hz: float, budget_percent: float) -> None:
        """Sample at another rate, or within another budget; 0 per cent is no limit.

        Raises:
            FlametapError: a number is out of bounds, or the recording has ended.
        """
        ...

    def children(self) -> list[ChildProcess]:
        """Return the processes that the target has started, the busiest first."""
        ...
