"""Checking recipes against memory that lies."""

from __future__ import annotations

import random
import struct
import time

import pytest

from fake_memory import FakeMemory
from flametap.symbols.interpreters.found import Checked
from flametap.symbols.interpreters.python import check as module
from flametap.symbols.interpreters.python.check import Types, check
from flametap.symbols.interpreters.python.offsets import TABLES
from flametap.symbols.interpreters.recipe import Recipe

BASE = 0x10000
SIZE = 1 << 14
TYPES = Types(frozenset({BASE + 0x100}), frozenset({BASE + 0x200}))


@pytest.fixture(autouse=True)
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_PAUSE_S", 0)


def recipe(version: tuple[int, int]) -> Recipe:
    numbers = {**TABLES[version], "runtime_addr": BASE, "code_type_addr": BASE + 0x100}
    if "gil_addr" in numbers:
        numbers["gil_addr"] += BASE
    return Recipe(numbers)


@pytest.mark.parametrize("version", TABLES)
def test_interpreter_that_has_not_started_passes(version: tuple[int, int]) -> None:
    result = check(FakeMemory({BASE: bytes(SIZE)}), recipe(version), TYPES)
    assert (result.checked, result.has_started) == (Checked.UNSEEN, False)


@pytest.mark.parametrize("version", TABLES)
def test_memory_that_has_gone_is_wrong(version: tuple[int, int]) -> None:
    assert check(FakeMemory({}), recipe(version), TYPES).checked is Checked.WRONG


@pytest.mark.parametrize("version", TABLES)
def test_random_memory_raises_nothing_and_never_fits(version: tuple[int, int]) -> None:
    numbers = random.Random(str(version))
    began = time.process_time()
    for _ in range(100):
        words = [
            numbers.choice([0, 1, 8, 1 << 63, BASE + numbers.randrange(SIZE // 8) * 8])
            for _ in range(SIZE // 8)
        ]
        memory = FakeMemory({BASE: struct.pack(f"<{len(words)}Q", *words)})
        result = check(memory, recipe(version), TYPES)
        assert result.checked is not Checked.FITS
        assert memory.reads < 100_000
    assert time.process_time() - began < 30
