"""Telling the agent about interpreters: at first, when modules come, when one starts late."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from typing import Any, cast

import pytest

from flametap.capture import interpreters as module
from flametap.capture.interpreters import InterpreterWatch
from flametap.errors import FlametapError
from flametap.symbols.interpreters.found import FoundInterpreter
from flametap.symbols.interpreters.search import Interpreters
from flametap.wire.abi import RUNTIME_REGISTERED
from running import wait_until

FOUND = FoundInterpreter(1, "CPython", "CPython 3.12.1", (3, 12), "/python", None, "a note")


class FakeInterpreters:
    """What a target has, as the test says."""

    def __init__(self) -> None:
        self.now: list[FoundInterpreter] = []
        self.words: list[tuple[int, ...]] = []
        self.lists: list[int] = []
        self.is_settled = True
        self.looks = 0
        self.hangs = threading.Event()
        self.hangs.set()

    def look(self) -> list[FoundInterpreter]:
        self.hangs.wait(10)
        self.looks += 1
        return self.now

    def recipes(self) -> list[tuple[int, ...]]:
        return self.words


class Receiver:
    """Takes what the watch hands over."""

    def __init__(self) -> None:
        self.recipes: list[list[tuple[int, ...]]] = []
        self.found: list[list[FoundInterpreter]] = []
        self.fails = False

    def set_recipes(self, recipes: Sequence[tuple[int, ...]]) -> None:
        self.recipes.append(list(recipes))
        if self.fails:
            raise FlametapError("the attach is over", "")

    def set_interpreters(self, found: Sequence[FoundInterpreter]) -> None:
        self.found.append(list(found))


@pytest.fixture
def target(monkeypatch: pytest.MonkeyPatch) -> FakeInterpreters:
    monkeypatch.setattr(module, "_REST_S", 0.0)
    monkeypatch.setattr(module, "_RETRY_S", 0.01)
    return FakeInterpreters()


@pytest.fixture
def receiver() -> Receiver:
    return Receiver()


@pytest.fixture
def watch(target: FakeInterpreters, receiver: Receiver) -> Iterator[InterpreterWatch]:
    one = InterpreterWatch(
        cast(Interpreters, cast(Any, target)),
        receiver.set_recipes,
        receiver.set_interpreters,
        lambda: target.lists,
    )
    yield one
    target.hangs.set()
    one.close()


def test_recipes_are_handed_over_before_start_returns(
    target: FakeInterpreters, receiver: Receiver, watch: InterpreterWatch
) -> None:
    target.now, target.words = [FOUND], [(1, 2)]
    watch.start()
    assert (receiver.recipes, receiver.found) == ([[(1, 2)]], [[FOUND]])
    assert watch.notes == ["a note"]
    assert watch.found() == [FOUND]


def test_program_without_interpreter_needs_nothing(
    receiver: Receiver, watch: InterpreterWatch
) -> None:
    watch.start()
    assert (receiver.recipes, receiver.found, watch.notes) == ([], [], [])


def test_lists_of_registered_code_are_handed_over_when_they_are_found(
    target: FakeInterpreters, receiver: Receiver, watch: InterpreterWatch
) -> None:
    target.now, target.words, target.lists = [FOUND], [(1, 2)], [4711]
    watch.start()
    wait_until(lambda: len(receiver.recipes) == 2, "both")
    assert receiver.recipes[0] == [(1, 2)]
    first, listed = receiver.recipes[1]
    assert (first, listed[0], listed[3]) == ((1, 2), RUNTIME_REGISTERED, 4711)


def test_module_that_arrives_is_looked_at(
    target: FakeInterpreters, receiver: Receiver, watch: InterpreterWatch
) -> None:
    watch.start()
    target.now, target.words = [FOUND], [(1, 2)]
    watch.look_again()
    wait_until(lambda: receiver.recipes == [[(1, 2)]], "the recipe")


def test_interpreter_that_starts_late_is_looked_at_again(
    target: FakeInterpreters, receiver: Receiver, watch: InterpreterWatch
) -> None:
    target.now, target.is_settled = [FOUND], False
    watch.start()
    target.words = [(3,)]
    wait_until(lambda: receiver.recipes == [[(3,)]], "the recipe")
    target.is_settled = True


def test_lost_connection_is_no_error(
    target: FakeInterpreters, receiver: Receiver, watch: InterpreterWatch
) -> None:
    target.words, receiver.fails = [(1,)], True
    watch.start()
    target.words = [(2,)]
    watch.look_again()
    wait_until(lambda: receiver.recipes == [[(1,)], [(2,)]], "the second try")


def test_target_that_lets_us_wait_does_not_stop_the_recording(
    target: FakeInterpreters, watch: InterpreterWatch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "FIRST_LOOK_S", 0.05)
    target.hangs.clear()
    watch.start()
    assert target.looks == 0
