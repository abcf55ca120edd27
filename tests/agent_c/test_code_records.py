"""A function whose memory is used again before its name was read never gets another's name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from agent_build import build_driver, run_driver
from flametap.agent import C_SOURCES

DRIVER = Path(__file__).parent / "code_records.c"
GONE = "1 0  "
RIGHT = "0 7 outer_1 /srv/one.py"


@pytest.fixture(scope="module")
def program(require_capability: Callable[[str], str]) -> Path:
    require_capability("sanitizers")
    # Not AddressSanitizer: memory is read by page.
    flags = ("-O1", "-g1", "-fsanitize=undefined", "-fno-sanitize-recover=all")
    return build_driver(DRIVER, C_SOURCES, flags)


@pytest.mark.parametrize("used_again", ["none", "name", "file", "lines", "code"])
def test_name_is_what_the_handler_saw(used_again: str, program: Path) -> None:
    assert run_driver(program, used_again).decode() == f"{RIGHT}\n"


@pytest.mark.parametrize("used_again", ["name", "file", "lines", "code"])
def test_without_a_note_the_function_is_gone(used_again: str, program: Path) -> None:
    assert run_driver(program, used_again, "forgotten").decode() == f"{GONE}\n"


def test_memory_that_still_holds_all_of_it_needs_no_note(program: Path) -> None:
    assert run_driver(program, "none", "forgotten").decode() == f"{RIGHT}\n"
