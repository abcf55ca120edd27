"""Main threads that are kept until the agent is there."""

from __future__ import annotations

from flametap.inject.fork_hold import ForkHold


def test_signal_that_a_kept_thread_is_owed_goes_with_it() -> None:
    hold = ForkHold(7)
    hold.keep(7, 10)
    kept = hold._kept[7]
    assert (kept.number, kept.is_brief) == (10, False)
