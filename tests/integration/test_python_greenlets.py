"""Greenlets, which share a thread's stack: each one's stack is its own, and ends where it began."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from flametap.analysis.views import views_of
from flametap.model import Clock, ManagedVerdict
from flametap.tree.selection import Selection
from recording import complete_share, doubts, record
from running import Target
from stacks import of_tree

pytestmark = pytest.mark.needs("attach")

PROGRAM = Path(__file__).parents[1] / "targets" / "python_greenlets.py"
CPU_S = 2.0
SHARE_ERROR = 0.12  # four standard errors of 250 samples
LEFT, RIGHT = {"left", "left_inner"}, {"right", "right_inner"}


def test_greenlets_are_not_mixed_and_have_their_shares(
    require_capability: Callable[[str], str],
) -> None:
    target = Target([require_capability("greenlet"), PROGRAM])
    try:
        capture = record(target.pid, 1.0, cpu_s=CPU_S)
        lines = target.finish()
    finally:
        target.close()
    spent = {name: float(value) for name, value in (part.split("=") for part in lines[-1].split())}
    shown = of_tree(views_of(capture.recording).tree(Selection(Clock.CPU)))
    mixed = shown.where(lambda stack: bool(LEFT & set(stack)) and bool(RIGHT & set(stack)))
    assert not mixed.weights, mixed.heaviest()
    starter = {"<module>", "__libc_start_main"}
    started = shown.where(
        lambda stack: bool(starter & set(stack)) and bool((LEFT | RIGHT) & set(stack))
    )
    assert not started.weights, started.heaviest()
    left, right = (shown.under(name) for name in ("left_inner", "right_inner"))
    assert left + right >= 0.9 * shown.total, shown.heaviest()
    share = spent["left"] / sum(spent.values())
    assert left / (left + right) == pytest.approx(share, abs=SHARE_ERROR)
    assert complete_share(capture) >= 0.99, doubts(capture)
    verdicts = capture.profile.verdicts().managed
    assert verdicts[ManagedVerdict.EXACT.name] >= 0.9 * sum(verdicts.values()), verdicts
