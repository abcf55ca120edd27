"""Programs of the agent's C tests."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from agent_build import CFI_SOURCES, QUICK, SANITIZERS, build_driver

HERE = Path(__file__).parent


@pytest.fixture(scope="session")
def cfi_driver(require_capability: Callable[[str], str]) -> Path:
    """``cfi_driver.c`` over the call frame part of the agent, with sanitizers."""
    require_capability("sanitizers")
    return build_driver(HERE / "cfi_driver.c", CFI_SOURCES, (*SANITIZERS, *QUICK))
