"""The books of targets whose rounds can be checked (``targets/counted.h``)."""

from __future__ import annotations

import re

from running import Target

EXIT_CODE = 42
_FACTOR = 0x9E3779B97F4A7C15
_WORD = 1 << 64
_WAITS = ("epoll_wait", "poll", "nanosleep", "recv")


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


def check_shares_c(lines: list[str]) -> None:
    """Check what ``shares.c`` tells: each way to wait, and the sum of each computing thread."""
    for name, line in zip(_WAITS, lines, strict=False):
        assert re.fullmatch(rf"{name} returns=[1-9]\d* eintr=0 early=0 wrong=0", line), lines
    assert len(lines) == len(_WAITS) + 2, lines
    for line in lines[len(_WAITS) :]:
        check([line])


def check_shares_go(lines: list[str]) -> None:
    """Check what ``shares.go`` tells: sums, requests, recovered faults, and signals."""
    computed, others = lines[:2], " ".join(lines[2:]).split()
    for line in computed:
        check([line])
    told = dict(zip(others[::2], map(int, others[1::2]), strict=True))
    assert told["served"] > 0, told
    assert told["refused"] == 0, told
    assert told["recovered"] > 0, told
    # A signal that the program sends itself comes once, and no other comes.
    assert (told["got"], told["lost"], told["foreign"]) == (told["sent"], 0, 0), told
