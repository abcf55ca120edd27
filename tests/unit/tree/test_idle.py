"""Idle waits that can be left out: also those in a futex for another thread's work."""

from __future__ import annotations

import pytest

from call_trees import stacks_of, tree_of
from flametap.model import Function
from flametap.tree.name_order import NameOrder
from flametap.tree.shape import Shape, Step, Verb, arrange, is_idle
from flametap.tree.tree_view import TreeIndex

POOL = ("start", "_queue_SimpleQueue_get", "PyThread_acquire_lock_timed", "__futex_wait", "[futex]")
LOCK = ("start", "pthread_mutex_lock", "__lll_lock_wait", "[futex]")
OTHER = ("start", "spin", "[futex]")


@pytest.mark.parametrize(
    ("stack", "expected"),
    [(POOL, True), (LOCK, False), (OTHER, False), (("start", "[poll]"), True), ((), False)],
)
def test_futex_is_idle_if_its_callers_wait_for_work(stack: tuple[str, ...], expected: bool) -> None:
    assert is_idle([Function(name, "app") for name in stack]) is expected


def test_tree_without_idle_waits_keeps_locks() -> None:
    rows: list[tuple[int, str, int]] = []
    nodes: dict[tuple[str, ...], int] = {(): 0}
    for depth in range(5):
        for stack in sorted({each[: depth + 1] for each in (POOL, LOCK, OTHER)}):
            if len(stack) == depth + 1:
                nodes[stack] = len(nodes)
                rows.append((nodes[stack[:-1]], stack[-1], 7 if stack[-1] == "[futex]" else 0))
    tree = tree_of(rows)
    assert set(stacks_of(tree)) == {POOL, LOCK, OTHER}
    shape = Shape((Step(Verb.NO_IDLE),))
    order = NameOrder().of(tree.functions)
    found = arrange(TreeIndex(tree), shape, order, lambda *_: (), lambda _: -1)
    assert set(stacks_of(found)) == {LOCK, OTHER}
