"""Finding interpreters in running processes, and recipes that fit them."""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from flametap.linux.process_memory import ProcessMemory
from flametap.symbols.interpreters.python import debug_offsets, find, offsets, recipes
from flametap.symbols.interpreters.python.version import Version
from flametap.symbols.interpreters.search import Interpreters, find_interpreters
from flametap.symbols.locate.loaded_symbols import LoadedElf, LoadedSymbol
from flametap.wire.abi import RECIPE_WORDS
from python_frames import Walker
from python_targets import PythonTarget
from running import Start, wait_until

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
    assert has_eval < 100_000
    # In Debian's builds of 3.14 and newer, the symbol stands for the loop's entry alone.
    assert has_eval > (500 if found.minor_version >= (3, 14) else 10_000)
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


@pytest.mark.needs("gcc", "python3.12")
def test_interpreter_that_is_loaded_and_started_later(
    start: Start, require_capability: Callable[[str], str]
) -> None:
    python = Path(require_capability("python3.12")).resolve()
    library = python.parent.parent / "lib" / "libpython3.12.so.1.0"
    if not library.exists():
        pytest.skip("this Python has no shared library")
    target = start("embeds", str(library))
    interpreters = Interpreters(target.pid)
    assert interpreters.look() == []
    target.say("load")
    assert target.lines[-1] == "loaded"
    (found,) = interpreters.look()
    assert (found.has_started, found.recipe is not None) == (False, True)
    assert not interpreters.is_settled
    target.say("start")
    (found,) = interpreters.look()
    assert (found.has_started, interpreters.is_settled) == (True, False)
    target.say("run")

    def is_checked() -> bool:
        interpreters.look()
        return interpreters.is_settled

    wait_until(is_checked, "frames to be checked")
    (found,) = interpreters.found
    assert (found.recipe_id, found.note, found.recipe is not None) == (1, "", True)


def test_build_that_does_not_fit_its_recipe_gets_none(
    waiting_python: PythonTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    moved = {version: {**table, "frame_code": 40} for version, table in offsets.TABLES.items()}
    monkeypatch.setattr(recipes, "TABLES", moved)
    real = debug_offsets.numbers_of
    monkeypatch.setattr(recipes, "numbers_of", lambda found: {**real(found), "frame_code": 40})
    (found,) = find_interpreters(waiting_python.pid)
    assert found.recipe is None
    assert "a build that is not known (its frames are not where they should be)" in found.note


def test_unknown_version_gets_no_recipe(
    waiting_python: PythonTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(find, "find_version", lambda *_: Version(3, 16, 0))
    (found,) = find_interpreters(waiting_python.pid)
    assert (found.recipe, found.recipe_id) == (None, 0)
    text = "CPython 3.16.0: not known yet: its functions are shown as the interpreter's own"
    assert found.note == text


def test_stripped_of_exports_it_is_found_by_its_symbol_table(
    waiting_python: PythonTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    (before,) = find_interpreters(waiting_python.pid)
    real = LoadedElf.symbol

    def symbol(elf: LoadedElf, name: str) -> LoadedSymbol | None:
        return None if name in find.NAMES else real(elf, name)

    monkeypatch.setattr(LoadedElf, "symbol", symbol)
    found = find_interpreters(waiting_python.pid)
    if (
        waiting_python.name == "debian"
    ):  # stripped, and from before 3.13: it does not describe itself
        assert found == []
        return
    (after,) = found
    assert before.recipe is not None
    assert after.recipe is not None
    lost = before.recipe.numbers.items() - after.recipe.numbers.items()
    assert {name for name, _ in lost} <= {"eval_start", "eval_end"}
    assert not lost or before.minor_version >= (3, 13)


def test_process_that_has_gone_has_none() -> None:
    child = subprocess.Popen(["true"])
    child.wait()
    interpreters = Interpreters(child.pid)
    assert interpreters.look() == []
    assert re.search("No such", interpreters.problem)
