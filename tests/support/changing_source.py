"""A made-up profile that changes: after ten seconds, allocation takes three times as long."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fake_source import FakeSource
from flametap.tree.calltree import CallTree
from flametap.tree.selection import Selection
from flametap.tree.tree_view import TreeIndex

CHANGE_NS = 10_000_000_000
FACTORS = {"malloc": 3.0, "_int_malloc": 3.0, "sysmalloc": 3.0, "snprintf": 0.25}


class ChangingSource(FakeSource):
    """Views of twenty seconds; ranges that begin after the change differ."""

    def __init__(self) -> None:
        super().__init__(3_000)
        self.advance(20.0)

    def tree(self, selection: Selection) -> CallTree:
        tree = super().tree(selection)
        if selection.span is None or selection.span.start_ns < CHANGE_NS:
            return tree
        factor = np.array([FACTORS.get(each.name, 1.0) for each in tree.functions])
        self_ns = (tree.self_ns * np.append(factor, 1.0)[tree.function]).astype(np.int64)
        return replace(tree, self_ns=self_ns, total_ns=TreeIndex(tree).totals(self_ns))
