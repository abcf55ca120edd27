"""The books of targets whose rounds can be checked (``targets/counted.h``)."""

from __future__ import annotations

import re

from running import Target

EXIT_CODE = 42
_FACTOR = 0x9E3779B97F4A7C15
_WORD = 1 << 64


def sum_of(rounds: int) -> int:
    """The sum after so many rounds of which none was wrong."""
    return _FACTOR * (rounds * (rounds + 1) // 2) % _WORD


def check(lines: list[str], least: int = 1) -> dict[str, int]:
    """Check a report of one line, ``rounds N sum S [NAME NUMBER …]``.

    Returns:
        name → number, with ``rounds`` and what else the line tells.

    Raises:
        AssertionError: another line, another sum, or fewer than ``least`` rounds.
    """
    assert len(lines) == 1, lines
    assert re.fullmatch(r"rounds \d+ sum \d+( \w+ -?\d+)*", lines[0]), lines
    words = lines[0].split()
    told = dict(zip(words[::2], map(int, words[1::2]), strict=True))
    assert told["rounds"] >= least, f"only {told['rounds']} rounds"
    assert told["sum"] == sum_of(told["rounds"]), f"a round was wrong: {lines[0]}"
    return told


def finish(target: Target, least: int = 1) -> dict[str, int]:
    """End a target and check its exit code, its report, and that it wrote nothing else."""
    told = check(target.finish(EXIT_CODE), least)
    assert target.errors == [], target.errors
    return told
