"""Every stack that the agent takes of CPython, at every machine instruction, is one that can be."""

from __future__ import annotations

import ast
import itertools
import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from agent_build import WARNINGS, compiled
from flametap.agent import source
from flametap.model import ManagedVerdict, Verdict
from flametap.symbols.interpreters.search import find_interpreters
from flametap.wire import abi
from python_targets import VERSIONS
from running import Target

DRIVER = Path(__file__).with_name("python_step.c")
SCRIPT = Path(__file__).parents[1] / "targets" / "python_steps.py"
STEPS = 40_000
STEPS_S = 300.0  # a second where nothing else runs
WORD_CODE, WORD_RECIPE_SHIFT = 4, 48  # agent/interpreters/managed.h
NATIVE, LOOP, LOOP_WITHOUT_FRAMES = "(native)", "(loop)", "(loop without frames)"
# Of Debian's 3.11, whose chain is torn at some instructions in a way that cannot be repaired: the
# walk notices, and says so.
MOST_TORN = 0.0005


@dataclass
class Step:
    """One stack: per frame, leaf first, the name of a Python function, or what else it is."""

    stack: list[str]
    managed: ManagedVerdict
    native: Verdict


@pytest.fixture(scope="module")
def calls() -> dict[str, list[str]]:
    """The calls that the program can make."""
    tree = ast.parse(SCRIPT.read_text("utf-8"))
    value = next(
        node.value
        for node in tree.body
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "CALLS"
    )
    return eval(compile(ast.Expression(value), str(SCRIPT), "eval"))  # type: ignore[no-any-return]


@pytest.fixture(scope="module", params=VERSIONS)
def steps(
    request: pytest.FixtureRequest,
    require_capability: Callable[[str], str],
    tmp_path_factory: pytest.TempPathFactory,
) -> list[Step]:
    version = request.param
    python = require_capability("python" if version == "debian" else f"python{version}")
    flags = ("-O2", "-g", "-shared", "-fPIC", "-Wno-unused-function")
    text = f'{source()}#line 1 "{DRIVER.name}"\n{DRIVER.read_text("utf-8")}'
    library = compiled("agent_c/python_step", text, ["gcc", *WARNINGS, *flags])
    out = tmp_path_factory.mktemp("steps") / "steps"
    target = Target([python, SCRIPT, library, str(STEPS), out])
    try:
        (found,) = find_interpreters(target.pid)
        assert found.recipe is not None, found.note
        target.say(" ".join(map(str, found.recipe.words())), STEPS_S)
        told = json.loads(target.lines[-1])
    finally:
        target.close()
    loops = [
        range(found.recipe[f"eval{part}_start"], found.recipe[f"eval{part}_end"])
        for part in ("", "_cold")
    ]
    return parse(np.fromfile(out, np.uint64).tolist(), told, loops)


def parse(words: list[int], told: dict[str, Any], loops: list[range]) -> list[Step]:
    """Turn what the library wrote into steps."""
    names = {int(address): name for address, name in told["names"].items()}
    steps, at = [], 0
    while at < len(words):
        count, managed, native = words[at : at + 3]
        stack: list[str] = []
        frames = iter(words[at + 3 : at + 3 + count])
        for word in frames:
            kind, value = word >> abi.FRAME_KIND_SHIFT, word & (1 << WORD_RECIPE_SHIFT) - 1
            if kind == WORD_CODE:
                next(frames)  # its position and fingerprint
                stack.append(names.get(value, "?"))
            elif kind == abi.FRAME_KIND_EVAL:
                stack.append(LOOP)
            else:
                is_loop = any(value in loop for loop in loops)
                stack.append(LOOP_WITHOUT_FRAMES if is_loop else NATIVE)
        steps.append(Step(stack, ManagedVerdict(managed), Verdict(native)))
        at += 3 + count
    assert len(steps) == told["steps"] >= STEPS - 1
    return steps


def chain(step: Step) -> list[str]:
    """The Python functions, root first."""
    return [
        name for name in reversed(step.stack) if name not in (LOOP, LOOP_WITHOUT_FRAMES, NATIVE)
    ]


def test_every_chain_is_a_path_of_the_call_graph(
    steps: list[Step], calls: dict[str, list[str]]
) -> None:
    illegal = Counter(
        (step.managed.name, " > ".join(chain(step)[-3:]))
        for step in steps
        if step.managed is not ManagedVerdict.TORN and not is_path(chain(step), calls)
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


def is_path(names: list[str], calls: dict[str, list[str]]) -> bool:
    """Whether each function may call the next, from the module on."""
    return names[:1] == ["<module>"] and all(
        callee in calls.get(caller, ()) for caller, callee in itertools.pairwise(names)
    )
