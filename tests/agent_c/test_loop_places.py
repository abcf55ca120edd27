"""Interpreters of different builds in one process do not spoil each other's stacks."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent_build import build_driver, run_driver
from flametap.agent import C_SOURCES

DRIVER = Path(__file__).parent / "loop_places.c"


@pytest.mark.needs("sanitizers")
def test_each_interpreters_loop_has_its_own_place_for_the_anchor() -> None:
    program = build_driver(DRIVER, C_SOURCES)
    assert run_driver(program).split() == [b"2", b"2"]
