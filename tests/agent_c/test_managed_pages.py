"""Memory of an interpreter that was unmapped since the last sample is not touched."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent_build import build_driver, run_driver
from flametap.agent import C_SOURCES

DRIVER = Path(__file__).parent / "managed_pages.c"


@pytest.mark.needs("sanitizers")
def test_page_is_looked_at_anew_in_each_walk() -> None:
    program = build_driver(DRIVER, C_SOURCES)
    assert run_driver(program).split() == [b"0"] * 4
