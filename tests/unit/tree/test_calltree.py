"""Profile + names → tree: by function, with inlined frames, threads and system calls."""

from __future__ import annotations

import random

import numpy as np
import pytest

import wire
from flametap.model import Clock, Frame, FrameKind, Function, Split
from flametap.recording.names.table import SymbolTable
from flametap.recording.profile.store import Profile
from flametap.tree import calltree, own_frames
from flametap.tree.calltree import CallTree
from flametap.tree.merge import merge
from profiles import (
    INLINED,
    MAIN,
    WAIT,
    WORK,
    apply,
    naive_stacks,
    random_profile,
    small_profile,
    stacks_of_tree,
)

UNNAMED = Function("prog+0x1040", "prog", kind=FrameKind.UNKNOWN)
UNATTRIBUTED = own_frames.UNATTRIBUTED_FUNCTION
TRUNCATED = own_frames.TRUNCATED_FUNCTION


def check_shape(tree: CallTree) -> None:
    """What every tree promises."""
    n = len(tree.parent)
    assert all(
        len(column) == n
        for column in (tree.function, tree.self_ns, tree.total_ns, tree.line, tree.depth)
    )
    assert (tree.parent[0], tree.function[0], tree.depth[0]) == (-1, -1, 0)
    if n == 1:
        return
    parent = tree.parent[1:]
    assert (parent < np.arange(1, n)).all()
    assert (np.diff(parent) >= 0).all(), "siblings lie next to each other"
    assert (tree.depth[1:] == tree.depth[parent] + 1).all()
    assert (tree.total_ns[1:] > 0).all()
    sums = tree.self_ns.copy()
    np.add.at(sums, parent, tree.total_ns[1:])
    assert (sums == tree.total_ns).all()
    names = [tree.functions[i].name for i in tree.function[1:].tolist()]
    for i in range(n - 2):
        if parent[i] == parent[i + 1]:
            assert names[i] <= names[i + 1], "siblings are ordered by name"
            assert tree.function[i + 1] != tree.function[i + 2], "siblings differ"


def test_tree_merges_by_function_and_shows_inlined_and_synthetic_frames() -> None:
    profile, table = small_profile()
    tree = calltree.build(profile, table, Clock.CPU)
    check_shape(tree)
    assert stacks_of_tree(tree) == {
        (MAIN, WORK, INLINED): 11_500,
        (MAIN, WORK): 2_300,
        (MAIN, UNNAMED): 700,
        (UNATTRIBUTED,): 400,
        (TRUNCATED, WORK): 1_100,
    }
    assert tree.total_ns[0] == profile.total_ns(Clock.CPU) == 16_000


def test_parked_thread_ends_in_its_system_call() -> None:
    profile, table = small_profile()
    tree = calltree.build(profile, table, Clock.OFF_CPU)
    check_shape(tree)
    epoll_wait = Function("[epoll_wait]", "", kind=FrameKind.SYSCALL)
    assert stacks_of_tree(tree) == {(MAIN, WAIT, epoll_wait): 5_000_000, (MAIN, WORK, INLINED): 500}


def test_thread_without_a_cpu_waits_for_one_where_it_ran() -> None:
    profile, table = small_profile()
    apply(
        profile,
        9_000_000,
        intervals=[
            wire.interval(1, 2, 1_006_100, 30, 0, wire.QUEUED),
            wire.interval(1, 0, 1_006_130, 5, 0, wire.QUEUED),
        ],
    )
    waiting = Function("[waiting for a CPU]", "", kind=FrameKind.SYNTHETIC)
    for clock in (Clock.WALL, Clock.OFF_CPU):
        tree = calltree.build(profile, table, clock)
        check_shape(tree)
        found = stacks_of_tree(tree)
        assert (found[MAIN, WORK, waiting], found[waiting,]) == (30, 5)
    assert calltree.build(profile, table, Clock.CPU).total_ns[0] == 16_000


def test_some_threads_only() -> None:
    profile, table = small_profile()
    tree = calltree.build(profile, table, Clock.CPU, frozenset({2}))
    assert stacks_of_tree(tree) == {(MAIN, WORK, INLINED): 10_000}


def test_by_thread_each_thread_has_a_root_frame() -> None:
    profile, table = small_profile()
    tree = calltree.build(profile, table, Clock.CPU, split=Split.THREAD)
    check_shape(tree)
    roots = {
        tree.functions[int(tree.function[i])].name: int(tree.total_ns[i])
        for i in np.flatnonzero(tree.depth == 1)
    }
    assert roots == {"main (101)": 6_000, "pool;1 (102)": 10_000}


def test_line_is_that_of_the_heaviest_address() -> None:
    profile, table = small_profile()
    for threads, file, line in ((None, "", 20), (frozenset({1}), "work.inc", 25)):
        tree = calltree.build(profile, table, Clock.CPU, threads)
        (work,) = (
            i
            for i in np.flatnonzero(tree.depth == 2)
            if tree.functions[int(tree.function[i])] == WORK
            and tree.functions[int(tree.function[tree.parent[i]])] == MAIN
        )
        assert (tree.line_files[int(tree.line_file[work])], tree.line[work]) == (file, line)


@pytest.mark.parametrize("line", [0, 9])
def test_how_a_function_runs_is_that_of_the_heaviest_address(line: int) -> None:
    profile, table = small_profile()
    for address in range(profile.n_addresses):
        tier = "compiled by C2" if address == 0 else "interpreted"
        table.set(address, [Frame(WORK, line, tier=tier)])
    tree = calltree.build(profile, table, Clock.CPU)
    tiers = {tree.line_tiers[file] for file in tree.line_file[1:].tolist()}
    assert tiers - {""} == {"compiled by C2", "interpreted"}  # "": what has no stack


def test_of_lines_that_are_as_heavy_the_lowest_is_shown() -> None:
    """The order of the nodes that are merged depends on which others there are."""
    parent, key = np.array([-1, 0, 0, 0]), np.zeros(4, np.int64)
    merged = merge(parent, key, [np.array([0]), np.array([1, 2, 3])], 1)
    weights = np.array([30, 10, 10, 10])
    for lines in ([0, 182, 181, 0], [0, 0, 181, 182]):
        line, file = merged.lines(np.array(lines), np.array([0, 4, 4, 4]), weights)
        assert (line.tolist(), file.tolist()) == ([0, 181], [0, 4])


def test_span_of_time() -> None:
    profile, table = small_profile()
    tree = calltree.build(profile, table, Clock.CPU, t0_ns=1_002_000, t1_ns=1_004_300)
    assert stacks_of_tree(tree) == {(MAIN, WORK): 2_300, (MAIN, WORK, INLINED): 2_300}


def test_counting_samples() -> None:
    profile, table = small_profile()
    tree = calltree.build(profile, table, Clock.CPU, count_samples=True)
    assert stacks_of_tree(tree)[(MAIN, WORK, INLINED)] == 2
    assert tree.total_ns[0] == 6


def test_empty_profile_is_a_root() -> None:
    for split in Split:
        tree = calltree.build(Profile(), SymbolTable(), Clock.WALL, split=split)
        check_shape(tree)
        assert tree.total_ns.tolist() == [0]


def test_function_ids_stay_when_more_names_come() -> None:
    profile, table = small_profile()
    before = calltree.build(profile, table, Clock.CPU)
    ids = {before.functions[i]: i for i in before.function[1:].tolist()}
    (unnamed,) = (i for i, f in profile.news().addresses if f.addr == 0x1040)
    table.set(unnamed, [Frame(Function("late", "prog"))])
    after = calltree.build(profile, table, Clock.CPU)
    for i in after.function[1:].tolist():
        if after.functions[i].name != "late":
            assert ids[after.functions[i]] == i


def test_children_are_where_they_are_said_to_be() -> None:
    tree = calltree.build(*small_profile(), Clock.CPU)
    first, count = calltree.children(tree)
    for node in range(len(tree.parent)):
        expected = np.flatnonzero(tree.parent == node).tolist()
        assert list(range(first[node], first[node] + count[node])) == expected


def test_two_threads_with_one_tid_have_two_roots() -> None:
    from profiles import apply
    from wire import interval, thread

    profile, table = small_profile()
    apply(
        profile,
        1,
        threads=[thread(3, 101, "main")],
        intervals=[interval(3, 1, 2_000_000, 5, 5)],
    )
    tree = calltree.build(profile, table, Clock.CPU, split=Split.THREAD)
    names = [tree.functions[int(tree.function[i])].name for i in np.flatnonzero(tree.depth == 1)]
    assert names == ["main (101)", "main (101)", "pool;1 (102)"]


@pytest.mark.parametrize("seed", range(5))
def test_random_profile_gives_the_naive_tree(seed: int) -> None:
    profile, table = random_profile(random.Random(seed))
    for clock in Clock:
        for by_thread in (False, True):
            split = Split.THREAD if by_thread else Split.NONE
            tree = calltree.build(profile, table, clock, split=split)
            check_shape(tree)
            assert stacks_of_tree(tree) == naive_stacks(profile, table, clock, by_thread)
            assert tree.total_ns[0] == profile.total_ns(clock)


def test_stack_of_the_greatest_depth() -> None:
    from profiles import apply
    from wire import frame, interval, trace

    profile = Profile()
    deep = [frame(1, 0x1000 + i % 7) for i in range(2048)]
    apply(profile, 10, traces=[trace(1, deep)], intervals=[interval(1, 1, 1, 5, 5)])
    table = SymbolTable(profile.locate)
    for address_id, _ in profile.news().addresses:
        table.set(address_id, [Frame(MAIN, 1)] * 33)
    tree = calltree.build(profile, table, Clock.CPU)
    check_shape(tree)
    assert tree.depth[-1] == 2048 * 33
