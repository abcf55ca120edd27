"""How far the clocks of another machine are from ours."""

from __future__ import annotations

import time
from typing import Any

from ..recording.figures import duration

_SEEN_NS = 50_000_000  # a smaller difference of the time of day matters to nobody
_MAX_NS = 1 << 62


class Offset:
    """The offset by the fastest answer so far.

    Attributes:
        error_ns: it is certain within so much.
        ahead_ns: of the time of day there.
        shift_ns: what is added to a time of CLOCK_MONOTONIC there to have it here.
        n_answers: how many have come.
    """

    def __init__(self) -> None:
        self.error_ns = _MAX_NS
        self.ahead_ns = self.shift_ns = self.n_answers = 0

    def take(self, facts: dict[str, Any]) -> None:
        """Take an answer to a ping; what makes no sense is left out."""
        now_ns, here_ns = time.monotonic_ns(), time.time_ns()
        names = ("sent", "time_ns", "monotonic_ns")
        sent_ns, time_ns, there_ns = (facts.get(each) for each in names)
        for each in (sent_ns, time_ns, there_ns):
            if not isinstance(each, int) or not 0 <= each < _MAX_NS:
                return
        assert isinstance(sent_ns, int)
        assert isinstance(time_ns, int)
        assert isinstance(there_ns, int)
        self.n_answers += 1
        error_ns = (now_ns - sent_ns) // 2
        if 0 <= error_ns < self.error_ns:
            self.error_ns = error_ns
            self.ahead_ns = time_ns - (here_ns - error_ns)
            self.shift_ns = now_ns - error_ns - there_ns

    def notes(self, host: str) -> list[str]:
        """Say how far the time of day there is ahead, if it matters."""
        if abs(self.ahead_ns) <= max(2 * self.error_ns, _SEEN_NS):
            return []
        how = "ahead of" if self.ahead_ns > 0 else "behind"
        ahead, error = (duration(abs(each) / 1e9) for each in (self.ahead_ns, self.error_ns))
        return [f"the clock of {host} is {ahead} {how} the one here (± {error})"]
