"""Stacks of greenlets, at every machine instruction: never a part of another one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest

from flametap.model import ManagedVerdict, Verdict
from python_steps import LOOP_WITHOUT_FRAMES, Step, is_path, possible_calls, take_steps

ROOTS = ("<module>", "left_first", "right_first", "inner_first")
STEPS = 120_000  # four rounds


@pytest.fixture(scope="module")
def steps(
    require_capability: Callable[[str], str], tmp_path_factory: pytest.TempPathFactory
) -> list[Step]:
    python = require_capability("greenlet")
    return take_steps(python, tmp_path_factory.mktemp("steps") / "steps", STEPS, "greenlets")


def test_every_chain_is_one_of_one_greenlet(steps: list[Step]) -> None:
    calls = possible_calls()
    illegal = Counter(
        (step.managed.name, " > ".join(step.chain))
        for step in steps
        if step.chain and not is_path(step.chain, calls, ROOTS)
    )
    assert not illegal, illegal.most_common(8)
    assert {step.chain[0] for step in steps if step.chain} == set(ROOTS)


def test_native_stacks_end_where_the_greenlet_began(steps: list[Step]) -> None:
    """No call of the interpreter's loop is left over: those of others are not shown."""
    more = sum(
        LOOP_WITHOUT_FRAMES in step.stack
        and step.stack.index(LOOP_WITHOUT_FRAMES) > 0
        and step.managed in (ManagedVerdict.EXACT, ManagedVerdict.REPAIRED)
        for step in steps
        if step.chain
    )
    assert not more
    whole = sum(step.native in (Verdict.COMPLETE, Verdict.GUESSED) for step in steps)
    assert whole >= 0.98 * len(steps)  # while greenlet copies a stack, it is neither this nor that
