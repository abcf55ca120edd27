"""Our thread as it is really made: it answers its host, harms nobody, and leaves nothing behind."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from agent_build import build_driver, run_driver
from flametap.agent import C_SOURCES

DRIVER = Path(__file__).parent / "own_thread.c"
CASES = re.findall(r"^    CASE\((\w+)\),", DRIVER.read_text("utf-8"), re.MULTILINE)
# The thread has no thread pointer, so it can run nothing of libc that wants one: no canary, no
# lookup of a function at its first call, no sanitizer's report.
WITHOUT_POINTER = ("-fno-stack-protector", "-Wl,-z,now", "-fsanitize-undefined-trap-on-error")
FLAGS = ("-O1", "-g1", "-fomit-frame-pointer", "-pthread", "-fsanitize=undefined", *WITHOUT_POINTER)


@pytest.fixture(scope="module")
def own_thread(require_capability: Callable[[str], str]) -> Path:
    require_capability("sanitizers")
    return build_driver(DRIVER, C_SOURCES, FLAGS)


def test_every_case_is_listed(own_thread: Path) -> None:
    assert run_driver(own_thread, "list").decode().split() == CASES
    assert CASES


@pytest.mark.parametrize("case", CASES)
def test_own_thread(own_thread: Path, case: str) -> None:
    run_driver(own_thread, case)
