"""The short form of ``make stress``: scenarios once, a second long; ``SMOKES`` in ``make test``."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

import catalogue
import report
from nightly import nightly
from result import CLEAN
from runner import run_one
from targetbuild import Builder

SECONDS = float(os.environ.get("FLAMETAP_STRESS_SECONDS", "1"))
# Always the same moments: a test that fails shall fail again.
SEED = 1
# Short ones that have found most, and one of the runtimes that an attach once killed.
SMOKES = ("short-threads", "everything", "signals-in-critical-sections", "zoo-erlang")

pytestmark = pytest.mark.needs("attach", "gcc")


@pytest.fixture(scope="module")
def builder() -> Builder:
    """Compile targets."""
    return Builder()


@pytest.mark.parametrize(
    "name", [*SMOKES, *nightly(*(name for name in catalogue.SCENARIOS if name not in SMOKES))]
)
def test_scenario(
    name: str, builder: Builder, require_capability: Callable[[str], str], tmp_path: Path
) -> None:
    scenario = catalogue.SCENARIOS[name]
    for need in scenario.needs:
        require_capability(need)
    result = run_one(scenario, SECONDS, builder, SEED)
    assert result.verdict == CLEAN, report.progress(result)
