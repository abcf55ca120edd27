"""A thread on small stacks of its own making takes our signal on an alternate stack with room, or
not at all: memory below those stacks belongs to somebody else (``tests/targets/strays.c``)."""

from __future__ import annotations

import pytest

import receipt
from recording import record
from running import Start

pytestmark = pytest.mark.needs("attach", "gcc")


def counters(start: Start, kind: str, seconds: float) -> dict[str, int]:
    """Record the target, look that nothing was overwritten, and return the agent's counters."""
    target = start("strays", kind)
    before = receipt.take_at_rest(target.pid)
    capture = record(target.pid, seconds, rate_hz=1000)
    assert receipt.harm_after_settling(target.pid, before) == []
    assert target.finish() == ["wrong 0 spoilt 0"]
    return capture.status().counters


@pytest.mark.parametrize("kind", ["roomy", "unused"])
def test_alternate_stack_with_room_is_used(start: Start, seconds: float, kind: str) -> None:
    seen = counters(start, kind, seconds)
    assert seen["signals_handled"] > 0
    assert seen["stray_stack"] + seen["small_stack"] == 0


@pytest.mark.parametrize("kind", ["none", "small"])
def test_without_room_it_gets_no_signal(start: Start, seconds: float, kind: str) -> None:
    seen = counters(start, kind, seconds)
    assert seen["signals_sent"] == 0
    assert seen["stray_stack"] > 0
    assert seen["unattributed_cpu_ns"] > 0
