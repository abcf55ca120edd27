"""Which frames are shown: by language, and the interpreter's own on request; nothing gets lost."""

from __future__ import annotations

import random

import numpy as np
import pytest

import wire
from flametap.code.function_weights import line_weights, places
from flametap.code.module_shares import module_shares
from flametap.code.node_weights import node_weights
from flametap.model import MANAGED, Clock, Frame, FrameKind, Function, Split
from flametap.recording.names.table import GUESS
from flametap.recording.profile.stacks import ROOT, TRUNCATED
from flametap.recording.profile.store import Profile
from flametap.tree import calltree, own_frames
from flametap.tree.frame_filter import FrameFilter, Language, traits
from flametap.tree.selection import Selection
from flametap.tree.shown_frames import StackReader
from profiles import apply, random_profile, stacks_of_tree
from python_profiles import (
    CALL,
    DUMPS,
    EVAL,
    FREE,
    HANDLE,
    MAIN,
    QUERY,
    SERVE,
    SORT,
    WORKER,
    naive_filtered,
    named,
    python_profile,
    random_python_profile,
)

ALL, PYTHON, NATIVE = (FrameFilter(each) for each in Language)
EVERYTHING = FrameFilter(plumbing=True)
UNATTRIBUTED, CUT = own_frames.UNATTRIBUTED_FUNCTION, own_frames.TRUNCATED_FUNCTION
NO_PYTHON = own_frames.NO_PYTHON_FUNCTION
POLL = Function("[poll]", "", kind=FrameKind.SYSCALL)


def test_plumbing_is_hidden_where_python_runs_only() -> None:
    tree = calltree.build(*python_profile(), Clock.CPU)
    assert stacks_of_tree(tree) == {
        (MAIN, SERVE, HANDLE): 5_000,
        (MAIN, SERVE, HANDLE, SORT): 1_000,
        (MAIN, SERVE, HANDLE, SORT, QUERY): 5_000,
        (MAIN, SERVE, DUMPS): 600,
        (MAIN, CALL): 400,  # no Python function in this stack
        (WORKER,): 7_000,
        (CUT, WORKER): 1_100,
        (UNATTRIBUTED,): 500,
    }


def test_plumbing_on_request() -> None:
    tree = calltree.build(*python_profile(), Clock.CPU, frames=EVERYTHING)
    found = stacks_of_tree(tree)
    assert found[MAIN, SERVE, HANDLE, EVAL, FREE] == 3_000
    assert found[MAIN, SERVE, HANDLE, EVAL, FREE, CALL] == 2_000


def test_python_only() -> None:
    profile, table = python_profile()
    assert stacks_of_tree(calltree.build(profile, table, Clock.CPU, frames=PYTHON)) == {
        (SERVE, HANDLE): 6_000,
        (SERVE, HANDLE, QUERY): 5_000,
        (SERVE, DUMPS): 600,
        (NO_PYTHON,): 7_400,
        (NO_PYTHON, CUT): 1_100,
        (UNATTRIBUTED,): 500,
    }
    wall = stacks_of_tree(calltree.build(profile, table, Clock.WALL, frames=PYTHON))
    assert wall[NO_PYTHON, POLL] == 90_000


def test_native_only() -> None:
    tree = calltree.build(*python_profile(), Clock.CPU, frames=NATIVE)
    assert stacks_of_tree(tree) == {
        (MAIN, EVAL, FREE): 3_600,
        (MAIN, EVAL, FREE, CALL): 2_000,
        (MAIN, EVAL, FREE, SORT): 1_000,
        (MAIN, EVAL, FREE, SORT, EVAL, FREE): 5_000,
        (MAIN, CALL): 400,
        (WORKER,): 7_000,
        (CUT, WORKER): 1_100,
        (UNATTRIBUTED,): 500,
    }


def test_by_thread_each_stack_is_below_its_thread() -> None:
    tree = calltree.build(*python_profile(), Clock.CPU, split=Split.THREAD, frames=PYTHON)
    found = {
        tuple(function.name for function in path): ns for path, ns in stacks_of_tree(tree).items()
    }
    assert found["blas (102)", "[no Python frames]"] == 7_000
    assert found["python (101)", "[no Python frames]"] == 400
    assert found["python (101)", "serve", "Handler.get", "Query.fetch"] == 5_000


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("frames", [ALL, PYTHON, NATIVE, EVERYTHING], ids=str)
def test_random_stacks_give_the_naive_tree(seed: int, frames: FrameFilter) -> None:
    profile, table = random_python_profile(random.Random(seed))
    for clock in Clock:
        tree = calltree.build(profile, table, clock, frames=frames)
        assert stacks_of_tree(tree) == naive_filtered(profile, table, clock, frames)
        assert tree.total_ns[0] == profile.total_ns(clock)
        assert (tree.depth[1:] == tree.depth[tree.parent[1:]] + 1).all()


@pytest.mark.parametrize("frames", [ALL, PYTHON, NATIVE, EVERYTHING], ids=str)
def test_single_stacks_equal_the_trees(frames: FrameFilter) -> None:
    profile, table = random_python_profile(random.Random(9))
    reader = StackReader(profile, table, frames)
    kernel = table.kernel()
    leaves = profile.leaf_weights(Clock.CPU)
    known = set(naive_filtered(profile, table, Clock.CPU, frames))
    for node in leaves.node[leaves.weight > 0].tolist():
        call = kernel.get(reader.address(node), -1) if node > TRUNCATED else -1
        path = tuple(each.function for each in reader.frames(node, or_innermost=call < 0))
        if reader.root(node) != ROOT:
            at = path[:1] == (NO_PYTHON,)
            path = (*path[:at], own_frames.SYNTHETIC[reader.root(node)], *path[at:])
        path += (own_frames.syscall_function(call),) if call >= 0 else ()
        assert path in known


def test_lines_of_python_functions_are_boxes_of_their_own_on_request() -> None:
    profile, table = python_profile()
    tree = calltree.build(profile, table, Clock.CPU, frames=PYTHON, by_line=True)
    found = {
        (tree.functions[int(tree.function[i])].name, int(tree.line[i])): int(tree.total_ns[i])
        for i in range(1, len(tree.parent))
        if tree.functions[int(tree.function[i])].kind is FrameKind.PYTHON
    }
    assert found[("Handler.get", 12)] == 9_000
    assert found[("Handler.get", 14)] == 2_000
    native = calltree.build(profile, table, Clock.CPU, frames=NATIVE, by_line=True)
    assert stacks_of_tree(native) == stacks_of_tree(
        calltree.build(profile, table, Clock.CPU, frames=NATIVE)
    )


def test_python_function_without_a_name_yet_is_shown() -> None:
    profile, table = python_profile()
    late = type(table)(profile.locate)
    found = stacks_of_tree(calltree.build(profile, late, Clock.CPU, frames=PYTHON))
    assert sorted(map(len, found)) == [1, 1, 2, 2, 2, 2, 3]
    assert found[NO_PYTHON,] == 7_400


def test_weight_of_a_hidden_frame_is_its_callers_line() -> None:
    profile, table = python_profile()
    weights = node_weights(profile, table, Selection(Clock.CPU, frames=ALL))
    found = line_weights(weights, [table.function_id(HANDLE)])
    assert list(
        zip(found.line.tolist(), found.self_ns.tolist(), found.total_ns.tolist(), strict=True)
    ) == [
        (12, 3_000, 9_000),
        (14, 2_000, 2_000),
    ]
    python = node_weights(profile, table, Selection(Clock.CPU, frames=PYTHON))
    assert line_weights(python, [table.function_id(HANDLE)]).self_ns.tolist() == [4_000, 2_000]
    # Plumbing is shown in stacks without Python only, and weighs what it weighs there.
    assert line_weights(weights, [table.function_id(CALL)]).function_total_ns == 400
    everything = node_weights(profile, table, Selection(Clock.CPU, frames=EVERYTHING))
    assert line_weights(everything, [table.function_id(CALL)]).function_total_ns == 2_400


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("frames", [ALL, PYTHON, NATIVE, EVERYTHING], ids=str)
def test_weights_of_functions_equal_the_trees(seed: int, frames: FrameFilter) -> None:
    profile, table = random_python_profile(random.Random(seed))
    tree = naive_filtered(profile, table, Clock.CPU, frames)
    weights = node_weights(profile, table, Selection(Clock.CPU, frames=frames))
    assert weights.sum_ns == profile.total_ns(Clock.CPU)
    for function in {each for path in tree for each in path}:
        if function.kind not in (FrameKind.PYTHON, FrameKind.NATIVE) or function in (CALL,):
            continue
        found = line_weights(weights, [table.function_id(function)])
        if frames.language is not Language.NATIVE or function.kind is not FrameKind.PYTHON:
            assert found.function_total_ns == sum(
                ns for path, ns in tree.items() if function in path
            )


def test_modules_shares_are_those_of_shown_frames() -> None:
    profile, table = python_profile()
    shares = {
        share.module_id: share
        for share in module_shares(
            profile, table, node_weights(profile, table, Selection(Clock.CPU, frames=ALL))
        )
    }
    assert shares[MANAGED].self_ns == shares[MANAGED].lined_ns == 10_600
    assert shares[1].self_ns == 1_000 + 400 + 7_000 + 1_100
    found = places(
        profile, node_weights(profile, table, Selection(Clock.CPU)), [table.function_id(SORT)]
    )
    assert found.addr.tolist() == [0x3000]
    assert found.total_ns.tolist() == [6_000]


def test_native_recording_is_the_same_with_each_filter() -> None:
    profile, table = random_profile(random.Random(1))
    plain = stacks_of_tree(calltree.build(profile, table, Clock.CPU))
    for frames in (NATIVE, EVERYTHING):
        assert stacks_of_tree(calltree.build(profile, table, Clock.CPU, frames=frames)) == plain
    python = calltree.build(profile, table, Clock.CPU, frames=PYTHON)
    assert python.total_ns[0] == profile.total_ns(Clock.CPU)
    assert NO_PYTHON in {python.functions[i] for i in python.function[1:].tolist()}


def test_masks() -> None:
    functions = [SERVE, CALL, SORT, POLL, NO_PYTHON]
    found = np.array([traits(each) for each in functions], np.uint8)
    assert ALL.hidden_functions(found).tolist() == [False, True, False, False, False]
    assert PYTHON.hidden_functions(found).tolist() == [False, True, True, False, False]
    assert NATIVE.hidden_functions(found).tolist() == [True, False, False, False, False]
    # Callers of Python's functions are never guessed, only those of native functions between.
    assert traits(GUESS) == traits(CALL)
    modules, is_eval = np.array([MANAGED, 1, 1], np.int32), np.array([False, True, False])
    nameless = traits(Function("libpython+0x1", "libpython", kind=FrameKind.UNKNOWN))
    own = np.array([0, 0, 0], np.uint8)
    assert ALL.hidden_addresses(modules, is_eval, own).tolist() == [False, True, False]
    assert NATIVE.hidden_addresses(modules, is_eval, own).tolist() == [True, False, False]
    assert not EVERYTHING.hidden_addresses(modules, is_eval, own).any()
    # Without a name, in the interpreter's own file.
    modules, is_eval = np.array([1, 1, 2], np.int32), np.array([True, False, False])
    own = np.array([0, nameless, nameless], np.uint8)
    assert ALL.hidden_addresses(modules, is_eval, own).tolist() == [True, True, False]


def test_nameless_code_made_at_run_time_is_plumbing_of_ruby_only() -> None:
    ruby = Function("Posts#index", "app/posts.rb", "/srv/app/posts.rb", FrameKind.RUBY)
    outer, inner = wire.managed_frame(1, 4), wire.managed_frame(2, 9)
    made, main = wire.frame(0, 0x7000), wire.frame(1, 0x1000)
    profile = Profile()
    apply(
        profile,
        9_000_000,
        modules=[wire.module(1, "/usr/lib/libruby-3.3.so")],
        threads=[wire.thread(1, 101, "ruby")],
        traces=[wire.trace(1, [made, inner, made, outer, main])],
        intervals=[wire.interval(1, 1, 1_000_000, 7_000, 7_000)],
    )
    for function, hidden in ((ruby, True), (SERVE, False)):
        table = named(
            profile,
            {main: [Frame(MAIN, 0)], outer: [Frame(function, 4)], inner: [Frame(function, 9)]},
        )
        (path,) = stacks_of_tree(calltree.build(profile, table, Clock.CPU))
        names = [each.name for each in path]
        made_names = [] if hidden else ["[jit]"]
        assert names == ["main", function.name, *made_names, function.name, *made_names]
