"""A target that changes all that a profiler reads of it, at random, while it is recorded.

Each round ends with a named exit code, and what it saved can be opened.
"""

from __future__ import annotations

import random
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from attacker import SAVED, record
from nightly import nightly
from running import Target
from targetbuild import Builder

ATTACKS = "nmjtslfr"
ROUND_S = 2.0


@pytest.mark.needs("setpriv")
@pytest.mark.parametrize(("seed", "rounds", "attacks"), [(1, 1, ATTACKS), (2, 1, "nmjtslf")])
def test_mutating_target_neither_stops_nor_spoils_a_recording(
    seed: int,
    rounds: int,
    attacks: str,
    builder: Builder,
    start_theirs: Callable[..., Target],
    their_folder: Path,
    tmp_path: Path,
) -> None:
    program = their_folder / "mutator"
    shutil.copy(builder.program("mutator"), program)
    program.chmod(0o755)
    for number in range(rounds):
        target = start_theirs(program, their_folder, str(seed * 1000 + number), attacks)
        record(target, tmp_path, ROUND_S)
        target.close()


@pytest.mark.needs("setpriv")
@pytest.mark.parametrize("minutes", nightly(10))
def test_mutating_target_for_long(
    minutes: int,
    builder: Builder,
    start_theirs: Callable[..., Target],
    their_folder: Path,
    tmp_path: Path,
) -> None:
    """Half of the time one recording, then many of some seconds each, by any choice of attacks."""
    program = their_folder / "mutator"
    shutil.copy(builder.program("mutator"), program)
    program.chmod(0o755)
    target = start_theirs(program, their_folder, "1", "nmjtsl")
    assert record(target, tmp_path, minutes * 30) == SAVED
    target.close()
    choose, end_s, codes = random.Random(1), time.monotonic() + minutes * 30, dict[int, int]()
    while time.monotonic() < end_s:
        attacks = "".join(choose.sample(ATTACKS, choose.randrange(1, len(ATTACKS) + 1)))
        target = start_theirs(program, their_folder, str(choose.randrange(1 << 20)), attacks)
        code = record(target, tmp_path, choose.choice((1, 3, 8)))
        codes[code] = codes.get(code, 0) + 1
        target.close()
    print(f"exit codes: {codes}")
    assert codes.get(SAVED)
