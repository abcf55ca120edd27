"""What of the time counts in which the target does not answer."""

from __future__ import annotations

import threading

import pytest

from flametap.inject.frida import timed_call
from flametap.inject.frida.attach import Attach


def looks(monkeypatch: pytest.MonkeyPatch, *, at_work: bool) -> int:
    """How often a call that never ends is looked at before it is given up."""
    monkeypatch.setattr(timed_call, "LOOK_INTERVAL_S", 0.001)
    seen: list[bool] = []
    ended = threading.Event()

    def is_hopeless() -> bool:
        seen.append(at_work)
        return False

    with pytest.raises(timed_call.NoAnswerError):
        timed_call.bounded(Attach(0), ended.wait, 0.02, "test", is_hopeless, lambda: at_work)
    ended.set()
    return len(seen)


def test_time_counts_less_while_the_agent_is_at_work(monkeypatch: pytest.MonkeyPatch) -> None:
    assert looks(monkeypatch, at_work=True) > 4 * looks(monkeypatch, at_work=False)
