"""Programs that are stopped in the middle of the C library: tight loops through one function, and
libraries' locks and heaps that are held or broken. Whatever an attach does to them shows in their
results.

``make stress ARGS="'loops-*' 'stuck-*'"`` attaches to each a hundred times.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import cli
import counted
import receipt
from loop_targets import LOOPS, STUCK, VARIANT, arguments, dumped, is_its_own_change
from running import Start, Target
from targetbuild import Builder

pytestmark = pytest.mark.needs("attach", "gcc")

DURATION_S = 0.1
SETTLED_S = 10.0


def record(target: Target, folder: Path) -> None:
    """Record for a moment; in so short a time there may be no sample."""
    out = folder / "out.folded"
    result = cli.run("record", "-p", target.pid, "-d", DURATION_S, "-r", 1000, "-o", out)
    assert "Traceback" not in result.stderr, result.stderr
    assert result.exit_code in (0, 6), f"exit {result.exit_code}: {result.stderr}"


def assert_unharmed(target: Target, mode: str, before: receipt.Receipt, attaches: int) -> None:
    """Compare with the receipt, and have the target end with its result and its exit code."""
    found = receipt.harm_after_settling(target.pid, before, attaches=attaches, timeout_s=SETTLED_S)
    assert [line for line in found if not is_its_own_change(mode, line)] == []
    counted.finish(target)


@pytest.mark.parametrize("mode", LOOPS)
def test_tight_loop_goes_on(start: Start, builder: Builder, tmp_path: Path, mode: str) -> None:
    target = start("loops", *arguments(mode, builder.program), variant=VARIANT)
    before = receipt.take_at_rest(target.pid)
    record(target, tmp_path)
    dumped(target.pid)
    assert_unharmed(target, mode, before, attaches=2)


@pytest.mark.parametrize("mode", STUCK)
def test_program_that_holds_what_libraries_need_is_dumped(
    start: Start, builder: Builder, tmp_path: Path, mode: str
) -> None:
    target = start("stuck", *arguments(mode, builder.program), variant=VARIANT)
    before = receipt.take_at_rest(target.pid)
    names = dumped(target.pid)
    places = [names.index(function) for function in STUCK[mode]]
    assert places == sorted(places), names
    record(target, tmp_path)
    assert_unharmed(target, mode, before, attaches=2)
