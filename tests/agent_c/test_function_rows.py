"""Rows that are compiled a function at a time are those of the whole module."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent_build import build_driver, run_driver
from flametap.agent import C_SOURCES

DRIVER = Path(__file__).parent / "function_rows.c"
FOLDER = Path("/lib/x86_64-linux-gnu")
# The last one is damaged.
LIBRARIES = [
    FOLDER / name for name in ("libstdc++.so.6", "libm.so.6", "libcrypto.so.3", "libz.so.1")
]


@pytest.fixture(scope="module")
def lines() -> list[list[str]]:
    program = build_driver(DRIVER, C_SOURCES)
    there = [library for library in LIBRARIES if library.exists()]
    output = run_driver(program, *(library.resolve() for library in there)).decode()
    return [line.split() for line in output.splitlines()]


@pytest.mark.needs("sanitizers")
def test_each_function_has_the_rules_of_the_whole_module(lines: list[list[str]]) -> None:
    modules = {name: tuple(map(int, rest)) for name, *rest in lines if name != "damaged"}
    assert len(modules) >= 4, lines
    functions, addresses, differences = map(sum, zip(*modules.values(), strict=True))
    assert (functions > 10_000, addresses > 100_000) == (True, True), modules
    assert differences == 0, modules


@pytest.mark.needs("sanitizers")
def test_damaged_tables_break_no_promise(lines: list[list[str]]) -> None:
    ((_, compiled, refused),) = [line for line in lines if line[0] == "damaged"]
    assert int(compiled) > 10_000
    assert int(refused) > 100
