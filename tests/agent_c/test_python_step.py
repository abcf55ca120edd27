"""Every stack that the agent takes of CPython, at every machine instruction, is one that can be."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from flametap.model import ManagedVerdict, Verdict
from python_steps import LOOP_WITHOUT_FRAMES, NATIVE, Step, is_path, possible_calls, take_steps
from python_targets import ALL, VERSIONS, python_of

# Of Debian's 3.11, whose chain is torn at some instructions in a way that cannot be repaired: the
# walk notices, and says so.
MOST_TORN = 0.0005
# The first 2 200 are on the way back from step_begin.
UNLISTED_STEPS = 12_000


@pytest.fixture(scope="module", params=ALL)
def steps(
    request: pytest.FixtureRequest,
    require_capability: Callable[[str], str],
    tmp_path_factory: pytest.TempPathFactory,
) -> list[Step]:
    python = python_of(request.param, require_capability)
    return take_steps(python, tmp_path_factory.mktemp("steps") / "steps")


def test_every_chain_is_a_path_of_the_call_graph(steps: list[Step]) -> None:
    calls = possible_calls()
    illegal = Counter(
        (step.managed.name, " > ".join(step.chain[-3:]))
        for step in steps
        if step.managed is not ManagedVerdict.TORN and not is_path(step.chain, calls, ("<module>",))
    )
    assert not illegal, illegal.most_common(8)


def test_torn_chains_are_rare(steps: list[Step]) -> None:
    torn = sum(step.managed is ManagedVerdict.TORN for step in steps)
    assert torn <= MOST_TORN * len(steps)


def test_every_frame_is_above_the_loop_that_runs_it(steps: list[Step]) -> None:
    """Further out than the innermost call, every native frame of the loop has its frames."""
    misplaced: Counter[str] = Counter()
    for step in steps:
        if step.managed is ManagedVerdict.MISPLACED:
            misplaced["misplaced"] += 1
        bare = [i for i, name in enumerate(step.stack) if name == LOOP_WITHOUT_FRAMES]
        first = next((i for i, name in enumerate(step.stack) if name != NATIVE), None)
        if bare and bare != [first] and step.managed is not ManagedVerdict.TORN:
            misplaced["loop without frames"] += 1
    assert not misplaced


def test_native_stacks_are_whole(steps: list[Step]) -> None:
    verdicts = Counter(step.native for step in steps)
    whole = verdicts[Verdict.COMPLETE] + verdicts[Verdict.GUESSED]
    assert whole >= 0.999 * len(steps), verdicts


@pytest.mark.parametrize("version", VERSIONS)
def test_thread_that_is_not_in_the_list_is_found_by_its_lock(
    version: str, require_capability: Callable[[str], str], tmp_path: Path
) -> None:
    """As a thread that has just begun, and as each call of PyGILState_Ensure makes one."""
    python = python_of(version, require_capability)
    calls = possible_calls()
    taken = take_steps(python, tmp_path / "steps", UNLISTED_STEPS, "unlist")
    illegal = Counter(
        (step.managed.name, " > ".join(step.chain[-3:]))
        for step in taken
        if step.managed is not ManagedVerdict.TORN and not is_path(step.chain, calls, ("<module>",))
    )
    assert not illegal, illegal.most_common(8)


def test_interpreter_whose_recipe_was_withdrawn_is_not_read(
    require_capability: Callable[[str], str], tmp_path: Path
) -> None:
    """Not by its lock either, which the agent still knows."""
    python = python_of("3.12", require_capability)
    taken = take_steps(python, tmp_path / "steps", UNLISTED_STEPS, "withdraw")
    last = taken[UNLISTED_STEPS // 2 :]
    assert not [step.chain for step in last if step.chain][:1]
