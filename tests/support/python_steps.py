"""Take stacks of CPython at every machine instruction, and read what the program can call."""

from __future__ import annotations

import ast
import itertools
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from agent_build import WARNINGS, compiled
from flametap.agent import source
from flametap.model import ManagedVerdict, Verdict
from flametap.symbols.interpreters.search import find_interpreters
from flametap.wire import abi
from running import Target

DRIVER = Path(__file__).parents[1] / "agent_c" / "python_step.c"
SCRIPT = Path(__file__).parents[1] / "targets" / "python_steps.py"
STEPS = 40_000
STEPS_S = 300.0  # a second where nothing else runs
WORD_CODE, WORD_RECIPE_SHIFT = 4, 48  # agent/interpreters/managed.h
NATIVE, LOOP, LOOP_WITHOUT_FRAMES = "(native)", "(loop)", "(loop without frames)"


@dataclass
class Step:
    """One stack: per frame, leaf first, the name of a Python function, or what else it is."""

    stack: list[str]
    managed: ManagedVerdict
    native: Verdict

    @property
    def chain(self) -> list[str]:
        """The Python functions, root first."""
        others = (LOOP, LOOP_WITHOUT_FRAMES, NATIVE)
        return [name for name in reversed(self.stack) if name not in others]


def possible_calls() -> dict[str, list[str]]:
    """Return the calls that the program can make."""
    tree = ast.parse(SCRIPT.read_text("utf-8"))
    value = next(
        node.value
        for node in tree.body
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "CALLS"
    )
    return eval(compile(ast.Expression(value), str(SCRIPT), "eval"))  # type: ignore[no-any-return]


def is_path(chain: list[str], calls: dict[str, list[str]], roots: tuple[str, ...]) -> bool:
    """Whether each function may call the next, from a root on."""
    return (
        chain[:1] != []
        and chain[0] in roots
        and all(callee in calls.get(caller, ()) for caller, callee in itertools.pairwise(chain))
    )


def take_steps(python: str, out: Path, count: int = STEPS, *mode: str) -> list[Step]:
    """Run the program, and return its stacks."""
    flags = ("-O1", "-g1", "-shared", "-fPIC", "-Wno-unused-function")
    text = f'{source()}#line 1 "{DRIVER.name}"\n{DRIVER.read_text("utf-8")}'
    library = compiled(
        "agent_c/python_step", text, ["gcc", *WARNINGS, *flags, f"-I{DRIVER.parent}"]
    )
    target = Target([python, SCRIPT, library, str(count), out, *mode])
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
    steps = parse(np.fromfile(out, np.uint64).tolist(), told, loops)
    assert len(steps) == told["steps"] >= count - 1
    return steps


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
                next(frames)  # what its record says
                stack.append(names.get(value, "?"))
            elif kind == abi.FRAME_KIND_EVAL:
                stack.append(LOOP)
            else:
                is_loop = any(value in loop for loop in loops)
                stack.append(LOOP_WITHOUT_FRAMES if is_loop else NATIVE)
        steps.append(Step(stack, ManagedVerdict(managed), Verdict(native)))
        at += 3 + count
    return steps
