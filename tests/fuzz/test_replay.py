"""Fuzz targets on their seeds and some damage to them: a moment of what ``make fuzz`` does for
long."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import fuzzing
from agent_build import run_driver

LOADER = Path("/lib64/ld-linux-x86-64.so.2")
ROUNDS = 20_000
# Half of gcc's time and a fifth of clang's. Optimised code is what tests/agent_c and make fuzz run.
QUICK_BUILD = "-O0"


@pytest.mark.needs("sanitizers")
@pytest.mark.parametrize("name", fuzzing.TARGETS)
def test_replay(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seeds = tmp_path / "seeds"
    seeds.mkdir()
    count = fuzzing.write_seeds(name, seeds, [LOADER, Path(sys.executable).resolve()], 1000)
    assert count >= 3
    program = tmp_path / name
    text = fuzzing.joined(name, tmp_path, "replay.c")
    command = fuzzing.build_command("gcc", text, program, fuzzing.SANITIZE, QUICK_BUILD)
    built = subprocess.run(command, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    monkeypatch.setenv("ASAN_OPTIONS", "detect_leaks=0:allocator_may_return_null=1")
    output = run_driver(program, seeds, ROUNDS, 1)
    assert output.decode() == f"{count} seeds, {ROUNDS} rounds\n"


def test_fuzzer_builds(tmp_path: Path, require_capability: Callable[[str], str]) -> None:
    """The same targets under clang, whose warnings are others than gcc's."""
    compiler = require_capability("clang-fuzzer")
    text = fuzzing.joined("unwind", tmp_path)
    flags = (f"{fuzzing.SANITIZE},fuzzer", QUICK_BUILD)
    command = fuzzing.build_command(compiler, text, tmp_path / "x", *flags)
    built = subprocess.run(command, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
