"""Ruby frames in a made heap, each case under AddressSanitizer and UBSan."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from agent_build import SANITIZERS, build_driver, run_driver
from flametap.agent import C_SOURCES

DRIVER = Path(__file__).parent / "ruby_cases.c"
CASES = re.findall(r"^    CASE\((\w+)\),", DRIVER.read_text("utf-8"), re.MULTILINE)
FLAGS = (*SANITIZERS, "-pthread")


@pytest.fixture(scope="module")
def ruby_cases(require_capability: Callable[[str], str]) -> Path:
    require_capability("sanitizers")
    return build_driver(DRIVER, C_SOURCES, FLAGS)


def test_every_case_is_listed(ruby_cases: Path) -> None:
    assert run_driver(ruby_cases, "list").decode().split() == CASES
    assert CASES


@pytest.mark.parametrize("case", CASES)
def test_ruby_frames(ruby_cases: Path, case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # All leaks are the test's own: a case allocates its world and ends.
    monkeypatch.setenv("ASAN_OPTIONS", "detect_leaks=0")
    run_driver(ruby_cases, case)
