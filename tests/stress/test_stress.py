"""The short form of ``make stress``: each scenario once, a second long. Those with the mark
``matrix`` are left to the long form."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

import catalogue
import report
from result import CLEAN
from runner import run_one
from targetbuild import Builder

SECONDS = float(os.environ.get("FLAMETAP_STRESS_SECONDS", "1"))
# Always the same moments: a test that fails shall fail again.
SEED = 1

pytestmark = pytest.mark.needs("attach", "gcc")


@pytest.fixture(scope="module")
def builder(tmp_path_factory: pytest.TempPathFactory) -> Builder:
    """Compiles targets, each once."""
    return Builder(tmp_path_factory.mktemp("targets"))


@pytest.mark.parametrize("name", [n for n, s in catalogue.SCENARIOS.items() if not s.matrix])
def test_scenario(
    name: str, builder: Builder, require_capability: Callable[[str], str], tmp_path: Path
) -> None:
    scenario = catalogue.SCENARIOS[name]
    for need in scenario.needs:
        require_capability(need)
    result = run_one(scenario, SECONDS, builder, SEED)
    assert result.verdict == CLEAN, report.progress(result)
