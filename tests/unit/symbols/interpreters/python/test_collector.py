"""The function of CPython that collects garbage, among those that lead to it or sound like it."""

from __future__ import annotations

import pytest

from flametap.model import FrameKind, Function
from flametap.symbols.interpreters.python.collector import is_collector

COLLECTORS = ("collect", "collect.constprop.0", "gc_collect_main", "gc_collect_young.isra.0")
OTHERS = (
    *("gc_collect", "gc_collect_impl", "gc_collect_with_callback", "_PyGC_Collect", "_Py_RunGC"),
    *("PyGC_Collect", "collections_exec", "collect_exception_group_leaf_ids", "deduce_unreachable"),
)


@pytest.mark.parametrize("name", COLLECTORS)
def test_collectors(name: str) -> None:
    assert is_collector(Function(name, "libpython3.12.so"))
    assert is_collector(Function(name, "libpython3.12.so", kind=FrameKind.INLINED))
    assert not is_collector(Function(name, "gc.py", kind=FrameKind.PYTHON))


@pytest.mark.parametrize("name", OTHERS)
def test_others(name: str) -> None:
    assert not is_collector(Function(name, "libpython3.12.so"))
