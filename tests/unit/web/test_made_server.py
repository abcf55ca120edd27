"""The made-up server that these tests look at: the same each time, with all a live one has."""

from __future__ import annotations

import numpy as np
import pytest

from flametap.model import Clock
from flametap.tree.selection import EVERYTHING, Selection
from made_server import MadeServer


def made(*seconds: float) -> MadeServer:
    server = MadeServer(400)
    for each in seconds:
        server.advance(each)
    return server


def test_it_is_the_same_each_time() -> None:
    first, second = made(2.0), made(2.0)
    for clock in Clock:
        trees = [each.views.tree(Selection(clock)) for each in (first, second)]
        assert np.array_equal(trees[0].parent, trees[1].parent)
        assert np.array_equal(trees[0].total_ns, trees[1].total_ns)
    assert first.recording.functions == second.recording.functions


def test_every_thread_has_each_moment_once_however_time_passes() -> None:
    for server in (made(5.0), made(0.5, 4.0, 0.02, 0.48)):
        assert {each.wall_ns for each in server.views.threads()} == {5 * 10**9}
        assert server.recording.status().duration_ns == 5 * 10**9


@pytest.mark.parametrize("state", ["paused", "ended"])
def test_it_stands_still_while_it_is_not_recorded(state: str) -> None:
    server = made(1.0)
    if state == "paused":
        server.controls.set_paused(True)
    else:
        server.end()
    revision, whole = server.revision, server.views.tree(EVERYTHING).total_ns[0]
    server.advance(1.0)
    assert server.revision > revision
    assert server.views.tree(EVERYTHING).total_ns[0] == whole
    assert server.recording.status().state == state


def test_open_waits_end_with_the_server() -> None:
    server = made(1.0)
    assert {"epoll_wait", "futex"} <= {each.waits_in for each in server.views.threads()}
    server.end()
    assert {each.waits_in for each in server.views.threads()} == {""}
    assert all(each.exited for each in server.views.threads())


def test_functions_change_their_shares_when_told() -> None:
    changing = MadeServer(400, changes={1: {"malloc": 100.0}})
    own = []
    for seconds in (1.0, 1.5):
        changing.advance(seconds)
        tree = changing.views.tree(EVERYTHING)
        names = [tree.functions[at].name for at in tree.function.tolist()[1:]]
        mine = np.array(["", *names]) == "malloc"
        own.append(tree.self_ns[mine].sum() / tree.total_ns[0])
    assert own[1] > 2 * own[0] > 0
