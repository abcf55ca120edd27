"""Samples of any depth come out of a thread's ring as they went in."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent_build import SANITIZERS, build_driver, run_driver
from flametap.agent import C_SOURCES

DRIVER = Path(__file__).parent / "samples_cases.c"
SAMPLES = 200_000


@pytest.mark.needs("sanitizers")
def test_samples_come_out_whole_and_in_order() -> None:
    program = build_driver(DRIVER, C_SOURCES, SANITIZERS)
    put_in, came_out, lost, wrong, turns = (int(n) for n in run_driver(program).split())
    assert wrong == 0
    assert put_in == came_out
    assert put_in + lost == SAMPLES
    assert put_in > SAMPLES / 2
    assert turns > 1000
