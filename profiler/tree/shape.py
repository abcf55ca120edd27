"""Say how a call tree is shown: what is hidden, folded, focused on, and from which end. Pure.

Like ``Selection``, which says what is counted, a shape travels as one object from the request to
the tree. Its steps are done in their order; chains are folded after all others, and the tree is
turned over at last.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np
import numpy.typing as npt

from ..model import Function
from . import transforms
from .calltree import CallTree
from .name_order import Order
from .tree_view import TreeIndex
from .upward import callers, invert
from .wait_names import is_for_work

Bools = npt.NDArray[np.bool_]


class Verb(str, Enum):
    """What a step does."""

    HIDE = "hide"  # its functions are part of their callers
    FOLD = "fold"  # its functions that call each other are one box
    RECURSION = "recursion"  # a function that calls itself directly is one box
    CHAINS = "chains"  # functions that do nothing but call the next one are one box
    WITHOUT = "without"  # no stacks through its functions
    NO_IDLE = "busy"  # no waits in which a thread has nothing to do
    ONLY = "only"  # the stacks through its functions, from the root
    FOCUS = "focus"  # its functions and what they call
    CALLERS = "callers"  # its functions and what calls them
    INVERTED = "inverted"  # the functions in which time was spent, and what calls them


TARGETED = (Verb.HIDE, Verb.FOLD, Verb.WITHOUT, Verb.ONLY, Verb.FOCUS, Verb.CALLERS)
UPWARD = (Verb.CALLERS, Verb.INVERTED)
IDLE_CALLS = (
    *("epoll_wait", "epoll_pwait", "epoll_pwait2", "poll", "ppoll", "select", "pselect6"),
    *("accept", "accept4", "nanosleep", "clock_nanosleep", "pause", "restart_syscall"),
    *("rt_sigtimedwait", "rt_sigsuspend", "io_getevents", "io_pgetevents", "io_uring_enter"),
    *("wait4", "waitid"),
)
"""Where threads wait for work, or for time to pass. A lock's wait is none of them."""
IDLE_NAMES = frozenset(f"[{name}]" for name in IDLE_CALLS)
FUTEX = "[futex]"  # a wait for a lock or for work: the functions above it tell


@dataclass(frozen=True)
class Step:
    """One step. ``target`` says which functions, in the words of the request."""

    verb: Verb
    target: str = ""


@dataclass(frozen=True)
class Shape:
    """The steps, in order."""

    steps: tuple[Step, ...] = ()

    @property
    def filters(self) -> Shape:
        """The steps that leave the root at the top."""
        return Shape(tuple(step for step in self.steps if step.verb not in UPWARD))

    @property
    def upward(self) -> Step | None:
        """The step that turns the tree over; None if there is none. The last one counts."""
        found = [step for step in self.steps if step.verb in UPWARD]
        return found[-1] if found else None


PLAIN = Shape()


def in_order(shape: Shape) -> list[Step]:
    """Return the steps in the order in which they are done."""
    steps = [step for step in shape.filters.steps if step.verb is not Verb.CHAINS]
    upward = shape.upward
    # A chain of an upward tree would hide the functions by whose path it is expanded.
    if upward is None and len(steps) < len(shape.filters.steps):
        steps.append(Step(Verb.CHAINS))
    return steps if upward is None else [*steps, upward]


ChosenOf = Callable[[TreeIndex, str], Collection[int]]
"""Finds the functions of a target that a tree may have, by id."""
BoxOf = Callable[[str], int]
"""Returns the id of the function that stands for the folded functions of a target."""


def arrange(index: TreeIndex, shape: Shape, order: Order, chosen: ChosenOf, box: BoxOf) -> CallTree:
    """Do the steps that leave the root at the top.

    Args:
        index: the tree.
        shape: the steps.
        order: of the functions.
        chosen: finds the functions of a target.
        box: returns the function that stands for a folded target.
    """
    for step in in_order(shape):
        if step.verb not in UPWARD and index.node_count > 1:
            index = TreeIndex(_done(index, step, order, chosen, box))
    return index.tree


def _done(index: TreeIndex, step: Step, order: Order, chosen: ChosenOf, box: BoxOf) -> CallTree:
    if step.verb is Verb.RECURSION:
        return transforms.fold_recursion(index, order)
    if step.verb is Verb.CHAINS:
        return transforms.fold_chains(index, order)
    if step.verb is Verb.NO_IDLE:
        return transforms.without_nodes(index, _idle(index), order)
    which = _mask(index, chosen(index, step.target))
    if step.verb is Verb.FOLD:
        return transforms.fold_runs(index, which, box(step.target), order)
    actions = {
        Verb.HIDE: transforms.hide,
        Verb.ONLY: transforms.only,
        Verb.WITHOUT: transforms.without,
        Verb.FOCUS: transforms.focus,
    }
    return actions[step.verb](index, which, order)


def is_idle(stack: Sequence[Function]) -> bool:
    """Return True for a stack, root first, that ends where a thread has nothing to do."""
    name = stack[-1].name if stack else ""
    return name in IDLE_NAMES or (name == FUTEX and is_for_work(stack[-2::-1]))


def _idle(index: TreeIndex) -> Bools:
    """Return the nodes of idle waits."""
    functions = index.tree.functions
    found = transforms.nodes_of(index, np.array([each.name in IDLE_NAMES for each in functions]))
    is_futex = np.array([each.name == FUTEX for each in functions])
    parent, function = index.tree.parent, index.tree.function

    def above(node: int) -> Iterator[Function]:
        while (node := int(parent[node])) > 0:
            yield functions[function[node]]

    for node in np.flatnonzero(transforms.nodes_of(index, is_futex)).tolist():
        found[node] = is_for_work(above(node))
    return found


def turned(
    index: TreeIndex,
    step: Step,
    order: Order,
    chosen: ChosenOf,
    path: Sequence[Collection[int]],
) -> CallTree:
    """Turn a tree over; see ``upward``."""
    if step.verb is Verb.INVERTED:
        return invert(index, order, path)
    return callers(index, _mask(index, chosen(index, step.target)), order, path)


def _mask(index: TreeIndex, functions: Collection[int]) -> Bools:
    found = np.zeros(len(index.tree.functions), bool)
    found[[each for each in functions if each < len(found)]] = True
    return found
