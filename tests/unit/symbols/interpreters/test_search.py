"""Finding interpreters in running processes, and recipes that fit them."""

from __future__ import annotations

import re
import subprocess
import time

import pytest

from flametap.linux.process_memory import ProcessMemory
from flametap.symbols.interpreters.search import Interpreters, find_interpreters
from flametap.wire.abi import RECIPE_WORDS
from python_frames import Walker
from python_targets import PythonTarget
from running import Start

pytestmark = pytest.mark.needs("attach")


def version_of(program: str) -> str:
    text = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout
    return text.split()[1]


def test_python_is_found_with_a_recipe(waiting_python: PythonTarget) -> None:
    (found,) = find_interpreters(waiting_python.pid)
    assert found.version == f"CPython {version_of(waiting_python.program)}"
    assert found.recipe is not None, found.note
    assert (found.recipe_id, found.note, found.has_started) == (1, "", True)
    words = found.recipe.words()
    assert len(words) == RECIPE_WORDS
    assert all(0 <= word < 1 << 64 for word in words)
    has_eval = found.recipe["eval_end"] - found.recipe["eval_start"]
    assert 10_000 < has_eval < 100_000
    assert ("gil_addr" in found.recipe) != ("interpreter_gil" in found.recipe)


def test_recipe_leads_to_the_frames_that_python_sees(waiting_python: PythonTarget) -> None:
    (found,) = find_interpreters(waiting_python.pid)
    assert found.recipe is not None
    with ProcessMemory(f"/proc/{waiting_python.pid}") as memory:
        walker = Walker(memory, found.recipe)
        threads = {thread.pointer: thread for thread in walker.threads()}
        assert len(threads) == len(waiting_python.stacks) + 1  # and the main thread
        for pointer, expected in waiting_python.stacks.items():
            codes = [walker.code(frame.code_addr, 1) for frame in threads[pointer].frames]
            names = [(code.parts[0].raw, code.detail[0]) for code in codes]
            assert len(names) == len(expected)
            for (raw, line), (name, _, _, _, first_line) in zip(names, expected, strict=True):
                assert (len(raw), line) == (len(raw), first_line)
                assert name.isascii() <= (raw.decode("latin-1") == name)


def test_second_look_finds_the_same_and_costs_little(waiting_python: PythonTarget) -> None:
    interpreters = Interpreters(waiting_python.pid)
    first = interpreters.look()
    assert interpreters.is_settled
    began = time.perf_counter()
    assert interpreters.look() == first
    assert time.perf_counter() - began < 0.2  # 0.5 ms on a quiet machine
    assert interpreters.recipes() == [each.recipe.words() for each in first if each.recipe]


@pytest.mark.needs("gcc")
def test_program_without_an_interpreter_has_none(start: Start) -> None:
    target = start("demo")
    assert find_interpreters(target.pid) == []


def test_process_that_has_gone_has_none() -> None:
    child = subprocess.Popen(["true"])
    child.wait()
    interpreters = Interpreters(child.pid)
    assert interpreters.look() == []
    assert re.search("No such", interpreters.problem)
