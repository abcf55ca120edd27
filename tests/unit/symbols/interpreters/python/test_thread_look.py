"""Variables, names and frames of threads that wait, against what the program itself says."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from flametap.linux import tasks
from flametap.linux.process_memory import MemoryReadError
from flametap.symbols.interpreters.found import FoundInterpreter
from flametap.symbols.interpreters.python import thread_look
from flametap.symbols.interpreters.python import thread_names as names_module
from flametap.symbols.interpreters.python.bounded_memory import BoundedMemory, LimitReached
from flametap.symbols.interpreters.python.reader import FREE_THREADED, Readers, open_readers
from flametap.symbols.interpreters.python.thread_look import FrameLook, Looker, ThreadLook
from flametap.symbols.interpreters.python.thread_names import thread_names
from flametap.symbols.interpreters.python.values import Values
from flametap.symbols.interpreters.search import find_interpreters
from python_targets import STATE, PythonState
from running import Target, wait_until

pytestmark = pytest.mark.needs("attach")

MOVES = STATE.with_name("python_moves.py")
MODULE = re.compile(r"\b(?:\w+\.)+(?=\w+(?: object at |\())")


@pytest.fixture
def found(python_state: PythonState) -> FoundInterpreter:
    (one,) = find_interpreters(python_state.pid)
    return one


@pytest.fixture
def readers(python_state: PythonState, found: FoundInterpreter) -> Iterator[Readers]:
    with BoundedMemory(f"/proc/{python_state.pid}", seconds=60) as memory:
        opened = open_readers(memory, found)
        assert opened is not None
        yield opened


def look(
    state: PythonState, readers: Readers, *, with_locals: bool = True
) -> dict[int, ThreadLook]:
    looker = Looker(
        state.pid,
        tasks.own_tids(state.pid),
        readers.frames,
        readers.objects,
        with_locals=with_locals,
    )
    return {thread.tid: thread for thread in looker.threads()}


def agrees(text: str, said: str) -> bool:
    """Whether a text is what the program says, or the beginning of it with a mark."""
    text = MODULE.sub("", text)
    if "…" not in text:
        return text == said
    return said.startswith(text.partition("…")[0].rstrip(", '\"")) and len(text) < 250


def test_variables_are_those_that_the_program_has(
    python_state: PythonState, readers: Readers
) -> None:
    threads = look(python_state, readers)
    for tid, frames in python_state.variables.items():
        thread = threads[tid]
        assert not thread.problem
        assert [frame.name.rpartition(".")[2] for frame in thread.frames] == [
            name for name, _ in frames
        ]
        for frame, (name, said) in zip(thread.frames, frames, strict=True):
            assert not frame.problem
            variables = {each.name: each.text for each in frame.variables}
            if said is None:
                assert not variables
                continue
            assert variables.keys() == said.keys(), name
            wrong = {k: (v, said[k]) for k, v in variables.items() if not agrees(v, said[k])}
            assert not wrong, name


def test_arguments_are_told_from_other_variables(
    python_state: PythonState, readers: Readers
) -> None:
    frames = [f for thread in look(python_state, readers).values() for f in thread.frames]
    scalars = next(frame for frame in frames if frame.name == "scalars")
    arguments = [each.name for each in scalars.variables if each.is_argument]
    assert arguments == ["positional", "keyword", "rest", "more"]


def test_names_are_those_that_the_program_gave(python_state: PythonState, readers: Readers) -> None:
    assert readers.objects is not None
    assert thread_names(readers.frames, readers.objects) == python_state.names


def test_name_that_changes_meanwhile_is_left_out(
    python_state: PythonState, readers: Readers, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert readers.objects is not None
    real, count = names_module._name, iter(range(1_000_000))

    def name(*arguments: Any) -> str:
        found = real(*arguments)
        return f"{found} {next(count)}" if found == "loop" else found

    monkeypatch.setattr(names_module, "_name", name)
    found = thread_names(readers.frames, readers.objects)
    assert found == {tid: name for tid, name in python_state.names.items() if name != "loop"}


def test_nobody_holds_the_lock_while_all_wait(python_state: PythonState, readers: Readers) -> None:
    threads = look(python_state, readers, with_locals=False)
    assert {thread.has_lock for thread in threads.values()} == {False}
    assert not any(frame.variables for thread in threads.values() for frame in thread.frames)


def test_thread_that_moves_is_left_out(
    python_state: PythonState, readers: Readers, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = iter(range(1_000_000))
    monkeypatch.setattr(thread_look, "rest_mark", lambda *_: None)
    monkeypatch.setattr(Looker, "_look", lambda *_: (FrameLook("f", "f.py", next(lines)),))
    for thread in look(python_state, readers).values():
        assert (thread.frames, thread.problem) == ((), thread_look.RUNS)


def test_thread_that_is_not_at_rest_is_shown_if_nothing_has_changed(
    python_state: PythonState, readers: Readers, monkeypatch: pytest.MonkeyPatch
) -> None:
    resting = look(python_state, readers)
    marks = iter(range(1_000_000))
    monkeypatch.setattr(thread_look, "rest_mark", lambda *_: (next(marks), 0))
    assert look(python_state, readers) == resting


@pytest.mark.parametrize("version", ["3.8", "3.10", "3.11", "3.12", "3.13"])
def test_variables_of_a_thread_that_runs_are_those_of_one_moment(
    version: str, require_capability: Callable[[str], str]
) -> None:
    target = Target([require_capability(f"python{version}"), MOVES])
    n_seen = 0
    try:
        (found,) = find_interpreters(target.pid)

        def see() -> bool:
            nonlocal n_seen
            with BoundedMemory(f"/proc/{target.pid}") as memory:
                opened = open_readers(memory, found)
                assert opened is not None
                tids = tasks.own_tids(target.pid)
                looker = Looker(target.pid, tids, opened.frames, opened.objects, with_locals=True)
                try:
                    threads = looker.threads()
                except MemoryReadError:  # the list of threads changed
                    return False
            for thread in threads:
                if thread.frames and thread.frames[0].name == "moves":
                    n_seen += 1
                    assert_of_one_moment({v.name: v.text for v in thread.frames[0].variables})
            return n_seen >= 20

        wait_until(see, "twenty looks at a thread that stayed as it was meanwhile", 60)
    finally:
        target.close()


def assert_of_one_moment(variables: dict[str, str]) -> None:
    """Compare the numbers of ``python_moves.py``."""
    numbers = [[int(n) for n in re.findall(r"\d+", text)] for text in variables.values()]
    assert len(numbers) == 4, variables
    flat = [n for own in numbers for n in own]
    assert flat == sorted(flat, reverse=True), variables
    assert flat[0] - flat[-1] <= 1, variables


def test_value_that_changes_meanwhile_is_no_value(
    python_state: PythonState, readers: Readers, monkeypatch: pytest.MonkeyPatch
) -> None:
    numbers = iter(range(1_000_000))
    monkeypatch.setattr(Values, "text", lambda *_: str(next(numbers)))
    frames = [f for thread in look(python_state, readers).values() for f in thread.frames]
    texts = {each.text for frame in frames for each in frame.variables}
    assert texts == {thread_look.CHANGES}


@pytest.mark.parametrize("limits", [{"reads": 200}, {"read_bytes": 9000}, {"seconds": 0.0}])
def test_limits_end_a_look_with_a_mark(
    python_state: PythonState, found: FoundInterpreter, limits: dict[str, Any]
) -> None:
    with BoundedMemory(f"/proc/{python_state.pid}", **limits) as memory:
        opened = open_readers(memory, found)
        assert opened is not None
        began = time.monotonic()
        try:
            threads = look(python_state, opened)
        except LimitReached:
            return
        assert thread_look.LIMIT in {
            problem
            for thread in threads.values()
            for problem in (thread.problem, *(frame.problem for frame in thread.frames))
        }
        assert time.monotonic() - began < 10


def test_objects_of_free_threaded_builds_are_not_read(found: FoundInterpreter) -> None:
    from dataclasses import replace

    with BoundedMemory("/proc/self") as memory:
        opened = open_readers(memory, replace(found, is_free_threaded=True))
    assert opened is not None
    assert (opened.objects, opened.problem) == (None, FREE_THREADED)
