"""A made-up profile in which one function calls very many others, each hardly ever."""

from __future__ import annotations

from call_trees import tree_of
from fake_source import FakeSource
from flametap.tree.calltree import CallTree
from flametap.tree.selection import Selection


class WideSource(FakeSource):
    """Views whose ``main`` calls ``children`` functions."""

    def __init__(self, children: int = 20_000) -> None:
        super().__init__(50)
        rows = [(0, "main", 0)]
        rows += [(1, f"handler_{at:05}", 1000 + 7919 * at % 5000) for at in range(children)]
        rows.append((2, "deepest", 500))
        self._wide = tree_of(rows)
        self.functions = list(self._wide.functions)
        self._ids = {function: at for at, function in enumerate(self.functions)}

    def tree(self, selection: Selection) -> CallTree:
        return self._wide
