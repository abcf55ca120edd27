"""What is kept between the trees of a recording changes none of them."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest

from flametap.model import Clock, Frame, Function
from flametap.recording.names.table import SymbolTable
from flametap.recording.profile.store import Profile
from flametap.tree import calltree, tree_builder
from flametap.tree.calltree import CallTree
from flametap.tree.comparison import join
from flametap.tree.frame_filter import FrameFilter, Language
from flametap.tree.name_order import NameOrder
from flametap.tree.selection import Selection, Span
from flametap.tree.tree_builder import TreeBuilder
from gil_profiles import gil_profile
from profiles import random_profile

S = 10**9
SELECTIONS = [
    Selection(),
    Selection(Clock.WALL),
    Selection(Clock.OFF_CPU),
    Selection(thread_ids=frozenset({1})),
    Selection(Clock.WALL, thread_ids=frozenset()),
    Selection(Clock.WALL, span=Span(S // 2, S)),
    Selection(span=Span(-S)),
    Selection(Clock.WALL, frames=FrameFilter(Language.PYTHON)),
    Selection(frames=FrameFilter(only_gil=True)),
]
COLUMNS = ("parent", "function", "self_ns", "total_ns", "line", "line_file", "depth")


def directly(profile: Profile, table: SymbolTable, selection: Selection) -> CallTree:
    t0_ns, t1_ns = selection.between(profile.start_ns, profile.now_ns)
    return calltree.build(
        profile,
        table,
        selection.clock,
        selection.thread_ids,
        t0_ns=t0_ns,
        t1_ns=t1_ns,
        frames=selection.frames,
    )


def check_all(builder: TreeBuilder, profile: Profile, table: SymbolTable) -> None:
    for selection in SELECTIONS:
        built, expected = builder.build(selection), directly(profile, table, selection)
        for column in COLUMNS:
            found, wanted = getattr(built, column), getattr(expected, column)
            assert found.dtype == wanted.dtype
            assert np.array_equal(found, wanted), (selection, column)


@pytest.mark.parametrize("seed", range(3))
def test_trees_are_those_that_are_built_directly(seed: int) -> None:
    for profile, table in (random_profile(random.Random(seed), 100), gil_profile()):
        builder = TreeBuilder(profile, table)
        check_all(builder, profile, table)
        check_all(builder, profile, table)


def test_second_tree_uses_what_the_first_one_made(monkeypatch: pytest.MonkeyPatch) -> None:
    profile, table = gil_profile()
    builder = TreeBuilder(profile, table)
    builder.build(Selection(Clock.WALL))
    monkeypatch.setattr(tree_builder, "frames_of", None)
    tree = builder.build(Selection(Clock.CPU, span=Span(0, S)))
    assert tree.total_ns[0] == directly(profile, table, Selection(span=Span(0, S))).total_ns[0]


def test_new_name_is_in_the_next_tree() -> None:
    profile, table = gil_profile()
    builder = TreeBuilder(profile, table)
    builder.build(Selection())
    table.set(0, [Frame(Function("renamed", "libx.so"), 7)])
    check_all(builder, profile, table)
    assert "renamed" in {table.functions[i].name for i in builder.build(Selection()).function[1:]}


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("is_rest", [False, True])
def test_trees_of_one_skeleton_are_joined_as_others_are(seed: int, is_rest: bool) -> None:
    for profile, table in (random_profile(random.Random(seed), 100), gil_profile()):
        builder = TreeBuilder(profile, table)
        whole = builder.build(Selection(Clock.WALL))
        order = NameOrder().of(table.functions)
        for selection in SELECTIONS[:7]:
            here = builder.build(selection)
            assert here.made_by
            assert whole.made_by
            assert here.made_by[0]() is whole.made_by[0]() is not None
            found = join(here, whole, order, is_rest=is_rest)
            expected = join(replace(here, made_by=None), whole, order, is_rest=is_rest)
            for column in COLUMNS:
                assert getattr(found, column).dtype == getattr(expected, column).dtype
                assert np.array_equal(getattr(found, column), getattr(expected, column)), column
            for one, other in zip(found.sides, expected.sides, strict=True):
                assert np.array_equal(one, other)
