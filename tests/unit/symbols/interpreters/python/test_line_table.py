"""Lines of positions in Python's code, against what each Python says itself."""

from __future__ import annotations

import json
import random
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from flametap.symbols.interpreters.python.line_table import LineTable
from flametap.wire.abi import NO_POSITION

SCRIPT = Path(__file__).parents[4] / "targets" / "python_lines.py"
VERSIONS = ("3.8", "3.9", "3.10", "3.11", "3.12", "3.13")
MODULES = 40


def minor_version(version: str) -> tuple[int, int]:
    major, minor = version.split(".")
    return int(major), int(minor)


@pytest.mark.parametrize("version", VERSIONS)
def test_every_position_has_the_line_that_python_says(
    version: str, require_capability: Callable[[str], str]
) -> None:
    python = require_capability(f"python{version}")
    command = [python, str(SCRIPT), str(MODULES)]
    printed = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    positions = 0
    for text in printed.stdout.splitlines():
        row = json.loads(text)
        table = LineTable(minor_version(version), bytes.fromhex(row["table"]), row["first_line"])
        expected = row["first_line"]
        for position, line in enumerate(row["lines"]):
            # Without a line of its own, the nearest one before.
            expected = expected if line is None else line
            assert table.line_at(position) == expected, (row["file"], row["name"], position)
            positions += 1
        assert table.line_at(NO_POSITION) == row["first_line"]
    assert positions > 20_000


def test_forms_of_entries_since_3_11() -> None:
    raw = bytes(
        [
            *(0x80 | 3 << 3 | 1, 0x12),  # short: 2 units of line 10
            *(0x80 | 11 << 3 | 0, 1, 2),  # next line: 1 unit of line 11
            *(0x80 | 15 << 3 | 2,),  # 3 units without a location
            *(0x80 | 13 << 3 | 0, 5),  # two lines back: 1 unit of line 9
            *(0x80 | 14 << 3 | 0, 0x40 | 0, 0x10, 0, 1, 2),  # 512 lines on: 1 unit of line 521
        ]
    )
    table = LineTable((3, 12), raw, 10)
    assert [table.line_at(p) for p in range(9)] == [10, 10, 11, 11, 11, 11, 9, 521, 521]


def test_line_without_its_own_before_any_is_the_first_line() -> None:
    table = LineTable((3, 11), bytes([0x80 | 15 << 3 | 3, 0x80 | 11 << 3, 0, 0]), 7)
    assert [table.line_at(p) for p in (0, 3, 4)] == [7, 7, 8]


@pytest.mark.parametrize("version", VERSIONS)
def test_position_beyond_a_cut_table_has_no_line(version: str) -> None:
    raw = {"3.8": "0401 0401", "3.9": "0401 0401", "3.10": "0400 0401"}.get(version, "d901 d901")
    table = LineTable(minor_version(version), bytes.fromhex(raw), 5, is_cut=True)
    assert table.line_at(0) >= 5
    assert table.line_at(1000) == 0
    assert LineTable(minor_version(version), bytes.fromhex(raw), 5).line_at(1000) > 0


@pytest.mark.parametrize("version", VERSIONS)
def test_damaged_tables_give_lines_that_fit_into_an_int(version: str) -> None:
    numbers = random.Random(version)
    for _ in range(500):
        raw = numbers.randbytes(numbers.randrange(60))
        table = LineTable(minor_version(version), raw, numbers.choice([-5, 0, 1, 1 << 30, 1 << 40]))
        for position in (0, 1, 20, 500, NO_POSITION):
            assert 0 <= table.line_at(position) < 1 << 31
