"""Main threads that are kept until the agent is there."""

from __future__ import annotations

import pytest

from flametap.inject import fork_hold


def test_signal_that_a_kept_thread_is_owed_goes_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fork_hold, "_kept", {})
    fork_hold.keep(7, 10)
    kept = fork_hold._kept[7]
    assert (kept.number, kept.is_brief) == (10, False)
