"""Who held the GIL while others waited."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from flametap.locks.lock_waits import lock_share, lock_waits
from flametap.model import Clock
from flametap.recording.names.table import SymbolTable
from flametap.recording.profile.store import Profile
from flametap.tree.calltree import build
from flametap.tree.frame_filter import FrameFilter, Language
from flametap.tree.selection import EVERYTHING, Selection
from flametap.tree.tree_view import ancestors
from gil_profiles import MAIN_THREAD, MS, PARSE, READER, RENDER, WORKER, gil_profile
from profiles import small_profile

WAIT = "[waiting for the GIL]"


@pytest.fixture(scope="module")
def recorded() -> tuple[Profile, SymbolTable]:
    return gil_profile()


def holders(
    recorded: tuple[Profile, SymbolTable],
    selection: Selection = EVERYTHING,
    path: Sequence[int] | None = None,
) -> tuple[int, dict[tuple[int, str], float]]:
    waits = lock_waits(*recorded, selection, path)
    functions = recorded[1].functions
    return waits.total_ns, {
        (each.thread_id, functions[each.function_id].name): each.ns / waits.total_ns
        for each in waits.holders
    }


def test_holders_of_all_waits(recorded: tuple[Profile, SymbolTable]) -> None:
    total_ns, found = holders(recorded)
    assert total_ns == 110 * MS
    # The main thread holds it for 60 + 10 ms of the others' waits, the worker for 35 of its own.
    assert found == {
        (MAIN_THREAD, PARSE.name): pytest.approx(70 / 105, rel=1e-3),
        (WORKER, RENDER.name): pytest.approx(35 / 105, rel=1e-3),
    }


def test_holders_of_the_waits_of_some_threads(recorded: tuple[Profile, SymbolTable]) -> None:
    total_ns, found = holders(recorded, Selection(thread_ids=frozenset({READER})))
    assert total_ns == 10 * MS
    assert found == {(MAIN_THREAD, PARSE.name): pytest.approx(1.0)}
    assert holders(recorded, Selection(thread_ids=frozenset({77}))) == (0, {})


@pytest.mark.parametrize("language", list(Language))
def test_holders_of_the_waits_of_one_box(
    recorded: tuple[Profile, SymbolTable], language: Language
) -> None:
    frames = FrameFilter(language)
    tree = build(*recorded, Clock.WALL, frames=frames)
    expected = {"read": 10 * MS, "parse": 40 * MS, "render": 60 * MS}
    if language is Language.NATIVE:
        expected = {"_PyEval_EvalFrameDefault": 110 * MS}
    seen = {}
    for node in range(1, len(tree.parent)):
        if tree.functions[tree.function[node]].name != WAIT:
            continue
        path = [int(tree.function[each]) for each in ancestors(tree, node)[1:]]
        total_ns, _ = holders(recorded, Selection(frames=frames), path)
        assert total_ns == tree.total_ns[node]
        seen[tree.functions[path[-2]].name] = total_ns
    assert seen == expected


@pytest.mark.parametrize("path", [(), (0,), (10**6,)])
def test_other_boxes_have_no_waits(
    recorded: tuple[Profile, SymbolTable], path: tuple[int, ...]
) -> None:
    assert lock_waits(*recorded, EVERYTHING, path).total_ns == 0


def test_share_of_the_wall_time(recorded: tuple[Profile, SymbolTable]) -> None:
    share = lock_share(recorded[0])
    assert share is not None
    assert share.held == pytest.approx(0.95)
    assert (share.awaited_ns, share.n_waiting) == (110 * MS, 3)
    assert lock_share(small_profile()[0]) is None
