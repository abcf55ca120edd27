"""Fuzz targets on their seeds and some damage to them: a moment of what ``make fuzz`` does for
long."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import fuzzing
from agent_build import run_driver
from nightly import nightly

LOADER = Path("/lib64/ld-linux-x86-64.so.2")
SEEDS = 1000
ROUNDS = 20_000
FEW = 5  # in `make test`, one part in so many
# Half of gcc's time and a fifth of clang's. Optimised code is what tests/agent_c and make fuzz run.
QUICK_BUILD = "-O0"


@pytest.mark.needs("sanitizers")
@pytest.mark.parametrize("part", [FEW, *nightly(1)])
@pytest.mark.parametrize("name", fuzzing.TARGETS)
def test_replay(name: str, part: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seeds = tmp_path / "seeds"
    seeds.mkdir()
    binaries = [LOADER, Path(sys.executable).resolve()]
    count = fuzzing.write_seeds(name, seeds, binaries, SEEDS // part)
    rounds = ROUNDS // part
    assert count >= 3
    program = fuzzing.build(name, "gcc", fuzzing.SANITIZE, QUICK_BUILD, more=("replay.c",))
    monkeypatch.setenv("ASAN_OPTIONS", "detect_leaks=0:allocator_may_return_null=1")
    output = run_driver(program, seeds, rounds, 1)
    assert output.decode() == f"{count} seeds, {rounds} rounds\n"


def test_fuzzer_builds(require_capability: Callable[[str], str]) -> None:
    """The same targets under clang, whose warnings are others than gcc's."""
    compiler = require_capability("clang-fuzzer")
    fuzzing.build("unwind", compiler, f"{fuzzing.SANITIZE},fuzzer", QUICK_BUILD)
