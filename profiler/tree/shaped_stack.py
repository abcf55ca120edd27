"""Do the steps of a shape to single stacks, as ``shape`` does them to a tree. Pure.

Formats that keep the order of time have stacks, not a tree. Chains are not folded here: whether a
function is part of one depends on all stacks.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from .shape import Verb


@dataclass(frozen=True)
class StackStep:
    """One step.

    Attributes:
        verb: what it does; not ``Verb.CHAINS``.
        chosen: the ids of its functions.
        is_idle: of ``Verb.NO_IDLE``: whether a stack ends in an idle wait.
        box: id of the function that stands for them, if they are folded.
    """

    verb: Verb
    chosen: Collection[int] = ()
    box: int = -1
    is_idle: Callable[[Sequence[int]], bool] | None = None


def shaped(stack: Sequence[int], steps: Sequence[StackStep]) -> list[int] | None:
    """Return a stack after some steps; None if it does not count any more.

    Args:
        stack: ids of functions, root first.
        steps: in their order. One that turns stacks over is the last.
    """
    found: list[int] | None = list(stack)
    for step in steps:
        if found is None:
            return None
        found = _done(found, step)
    return found


def _done(stack: list[int], step: StackStep) -> list[int] | None:
    chosen = step.chosen
    if step.verb is Verb.HIDE:
        return [each for each in stack if each not in chosen]
    if step.verb is Verb.FOLD:
        return _without_repeats([step.box if each in chosen else each for each in stack], step.box)
    if step.verb is Verb.RECURSION:
        return _without_repeats(stack)
    if step.verb is Verb.INVERTED:
        return stack[::-1]
    if step.is_idle is not None:
        return None if step.is_idle(stack) else stack
    at = next((at for at, each in enumerate(stack) if each in chosen), None)
    if step.verb is Verb.WITHOUT:
        return stack if at is None else None
    if at is None:
        return None
    if step.verb is Verb.FOCUS:
        return stack[at:]
    return stack[at::-1] if step.verb is Verb.CALLERS else stack


def _without_repeats(stack: list[int], only: int | None = None) -> list[int]:
    """Return a stack without functions that their own kind has called; of ``only``, if given."""
    return [
        each
        for at, each in enumerate(stack)
        if at == 0 or each != stack[at - 1] or (only is not None and each != only)
    ]
