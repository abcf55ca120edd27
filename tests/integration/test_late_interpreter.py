"""An interpreter that is found only after sampling has begun."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest

from flametap.capture import interpreters
from flametap.model import Clock
from flametap.symbols.interpreters.search import Interpreters
from recording import capturing, stacks
from running import Target, wait_until

pytestmark = pytest.mark.needs("attach")

PATIENCE_S = 60.0
SLEEPER = """
import sys
def asleep():
    print("ready", flush=True)
    sys.stdin.read()
asleep()
"""


def test_sleeping_threads_get_their_functions(
    adopt: Callable[[Target], Target], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thread that sleeps on is not looked at again for its own sake."""
    look, may_look = Interpreters.look, threading.Event()

    def late(self: Interpreters) -> Any:
        assert may_look.wait(PATIENCE_S)
        return look(self)

    monkeypatch.setattr(interpreters, "FIRST_LOOK_S", 0.0)
    monkeypatch.setattr(Interpreters, "look", late)
    target = adopt(Target([sys.executable, "-c", SLEEPER]))
    with capturing(target.pid) as capture:
        wait_until(lambda: capture.profile.samples > 0, "a stack without Python", PATIENCE_S)
        assert not capture.profile.has_managed
        may_look.set()
        wait_until(lambda: capture.profile.has_managed, "one with Python", PATIENCE_S)
        capture.stop()
        capture.finish_symbols(PATIENCE_S)
    assert any("asleep" in stack for stack in stacks(capture, Clock.WALL).weights)
    target.finish()
