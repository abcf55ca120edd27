"""The garbage collector as a frame below what made it run."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

import wire
from flametap.code.module_shares import module_shares
from flametap.code.node_weights import node_weights
from flametap.model import Clock, Frame, Function
from flametap.recording.names.table import SymbolTable
from flametap.recording.profile.store import Profile
from flametap.tree.calltree import CallTree, build
from flametap.tree.collector_share import collector_share
from flametap.tree.frame_filter import FrameFilter, Language
from flametap.tree.selection import Selection
from flametap.wire.abi import MARK_COLLECTING, MARK_LOCK_HELD
from profiles import apply
from python_profiles import (
    EVAL_ADDR,
    HANDLE_ADDR,
    MAIN_ADDR,
    NAMES,
    QUERY_ADDR,
    SERVE_ADDR,
    SORT_ADDR,
    named,
)
from stacks import of_tree

GC = "[garbage collection]"
ALLOCATE_ADDR, COLLECT_ADDR, VISIT_ADDR = (wire.frame(1, 0x20000 + i) for i in range(3))
LIBRARY_ADDR = wire.frame(2, 0x10)
COLLECTOR = {
    ALLOCATE_ADDR: [Frame(Function("_PyObject_GC_Alloc", "libpython3.12.so"))],
    COLLECT_ADDR: [
        Frame(Function("gc_collect_generations", "libpython3.12.so")),
        Frame(Function("gc_collect_main", "libpython3.12.so")),
    ],
    VISIT_ADDR: [Frame(Function("visit_decref", "libpython3.12.so"))],
    LIBRARY_ADDR: [Frame(Function("collect", "libother.so"))],
}
COLLECTING = MARK_LOCK_HELD | MARK_COLLECTING
COLLECTS = [MAIN_ADDR, SERVE_ADDR, EVAL_ADDR, ALLOCATE_ADDR, COLLECT_ADDR, VISIT_ADDR]
# A finalizer runs a Python function, which another collection cannot interrupt.
FINALIZES = [*COLLECTS[:5], HANDLE_ADDR, EVAL_ADDR, SORT_ADDR]
# Meanwhile another thread runs: it is marked, too, because the mark is the interpreter's.
RUNS = [MAIN_ADDR, QUERY_ADDR, EVAL_ADDR, SORT_ADDR]
OTHERS = [MAIN_ADDR, SERVE_ADDR, EVAL_ADDR, SORT_ADDR]


def recorded(
    *stacks: tuple[Sequence[int], int, int], has_symbols: bool
) -> tuple[Profile, SymbolTable]:
    """Return a profile of stacks, root first, with their marks and weights."""
    profile = Profile()
    apply(
        profile,
        10**7,
        modules=[wire.module(1, "/usr/lib/libpython3.12.so"), wire.module(2, "/usr/libother.so")],
        threads=[wire.thread(1, 101, "python")],
        traces=[
            wire.trace(i, path[::-1], marks=marks) for i, (path, marks, _) in enumerate(stacks, 1)
        ],
        intervals=[
            wire.interval(1, i, 10_000 * i, weight, weight)
            for i, (_, _, weight) in enumerate(stacks, 1)
        ],
    )
    native = {**NAMES, **COLLECTOR} if has_symbols else {}
    python = {SERVE_ADDR, HANDLE_ADDR, QUERY_ADDR}
    return profile, named(profile, native or {each: NAMES[each] for each in python})


def shown(found: tuple[Profile, SymbolTable], frames: FrameFilter) -> dict[tuple[str, ...], int]:
    return dict(of_tree(build(*found, Clock.CPU, frames=frames)).weights)


ALL_MARKED = ((COLLECTS, COLLECTING, 40), (FINALIZES, COLLECTING, 5), (RUNS, COLLECTING, 5))


def test_function_that_collects_has_it_as_its_caller() -> None:
    found = recorded(*ALL_MARKED, (OTHERS, MARK_LOCK_HELD, 50), has_symbols=True)
    inner = ("gc_collect_generations", GC, "gc_collect_main")
    expected = {
        ("main", "serve", "_PyObject_GC_Alloc", *inner, "visit_decref"): 40,
        ("main", "serve", "_PyObject_GC_Alloc", *inner, "Handler.get", "list_sort"): 5,
        ("main", "Query.fetch", "list_sort"): 5,
        ("main", "serve", "list_sort"): 50,
    }
    assert shown(found, FrameFilter()) == expected
    assert shown(found, FrameFilter(Language.PYTHON)) == {
        ("serve", GC): 40,
        ("serve", GC, "Handler.get"): 5,
        ("Query.fetch",): 5,
        ("serve",): 50,
    }
    native = shown(found, FrameFilter(Language.NATIVE))
    assert sum(weight for path, weight in native.items() if GC in path) == 45


def test_without_symbols_it_begins_at_what_occurs_only_then() -> None:
    # The sort of RUNS and OTHERS is no part of it, nor is the loop.
    found = recorded(*ALL_MARKED, (OTHERS, MARK_LOCK_HELD, 50), has_symbols=False)
    assert shown(found, FrameFilter(Language.PYTHON)) == {
        ("serve", GC): 40,
        ("serve", GC, "Handler.get"): 5,
        ("Query.fetch",): 5,
        ("serve",): 50,
    }
    for frames in (FrameFilter(), FrameFilter(plumbing=True), FrameFilter(Language.NATIVE)):
        stacks = shown(found, frames)
        assert sum(stacks.values()) == 100
        assert sum(weight for path, weight in stacks.items() if GC in path) == 45
        assert all(path.count(GC) <= 1 for path in stacks)
    weights = node_weights(*found, Selection(Clock.CPU))
    assert sum(share.self_ns for share in module_shares(*found, weights)) == 100


def test_without_symbols_callers_that_also_do_other_things_stay_above_it() -> None:
    allocates = ([*OTHERS[:3], ALLOCATE_ADDR], MARK_LOCK_HELD, 50)
    found = recorded(*ALL_MARKED, (OTHERS, MARK_LOCK_HELD, 5), allocates, has_symbols=False)
    allocate, collect, visit = (
        f"libpython3.12.so+{address:#x}" for address in (0x20000, 0x20001, 0x20002)
    )
    stacks = shown(found, FrameFilter(Language.NATIVE))
    (path,) = (path for path in stacks if visit in path)
    assert path[-4:] == (allocate, GC, collect, visit)


def test_without_symbols_a_rare_caller_is_not_a_second_one() -> None:
    rare_addr = wire.frame(1, 0x30000)
    rare = [MAIN_ADDR, QUERY_ADDR, EVAL_ADDR, rare_addr, *COLLECTS[3:]]
    found = recorded(
        (COLLECTS, COLLECTING, 40),
        (rare, COLLECTING, 10),
        (OTHERS, MARK_LOCK_HELD, 50),
        has_symbols=False,
    )
    assert shown(found, FrameFilter(Language.PYTHON)) == {
        ("serve", GC): 40,
        ("Query.fetch", GC): 10,
        ("serve",): 50,
    }


def test_other_libraries_collect_no_garbage() -> None:
    found = recorded(([*OTHERS[:3], LIBRARY_ADDR], MARK_LOCK_HELD, 10), has_symbols=True)
    assert shown(found, FrameFilter()) == {("main", "serve", "collect"): 10}


def test_mark_without_python_functions() -> None:
    found = recorded(([MAIN_ADDR, SORT_ADDR], COLLECTING, 10), has_symbols=True)
    assert shown(found, FrameFilter()) == {("main", "list_sort"): 10}


@pytest.mark.parametrize("has_symbols", [True, False])
def test_share_and_trigger(has_symbols: bool) -> None:
    below_query = [MAIN_ADDR, QUERY_ADDR, *COLLECTS[2:]]
    found = recorded(
        (COLLECTS, COLLECTING, 30),
        (below_query, COLLECTING, 10),
        (OTHERS, MARK_LOCK_HELD, 60),
        has_symbols=has_symbols,
    )
    share = collector_share(tree_of(found))
    assert share is not None
    assert (share.ns, share.trigger_ns) == (40, 30)
    assert share.trigger is not None
    assert share.trigger.name == "serve"
    assert collector_share(tree_of(recorded((OTHERS, 0, 10), has_symbols=has_symbols))) is None


def tree_of(found: tuple[Profile, SymbolTable]) -> CallTree:
    return build(*found, Clock.CPU)
