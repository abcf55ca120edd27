"""Each stack of a Python program equals what the program noted itself at that moment."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from nightly import nightly
from python_targets import python_of
from python_truth import SCRIPT, Truth, samples_of
from recording import capturing
from running import Target, wait_until
from targetbuild import Builder

pytestmark = pytest.mark.needs("attach", "gcc")

RATE_HZ = 1000.0
# A walk that is wrong at one of 300 instructions, as Python 3.11 and 3.12 are read without repairs,
# is seen by the short ones, and one at one of 10 000 by the long ones.
SHORT, LONG = 800, 100_000
ENOUGH_S = 3_600.0
UNEXPLAINED = 1e-4
MOST_UNEXPLAINED_SHORT = 1
STRIPPED = ("3.14", "3.15", "debian")  # Debian's: their C functions have no names


@pytest.mark.parametrize(
    ("version", "samples"),
    [
        ("3.11", SHORT),
        *nightly(*((version, SHORT) for version in ("3.13", "3.14", "3.15", "debian"))),
        *nightly(*((f"3.{minor}", LONG) for minor in range(8, 14))),
    ],
)
def test_stacks_are_those_that_the_program_notes(
    version: str,
    samples: int,
    builder: Builder,
    adopt: Callable[[Target], Target],
    require_capability: Callable[[str], str],
    tmp_path: Path,
) -> None:
    python = python_of(version, require_capability)
    target = adopt(Target([python, SCRIPT, builder.program("truth_marks", "shared"), tmp_path]))
    with capturing(target.pid, rate_hz=RATE_HZ) as capture:
        wait_until(lambda: capture.profile.cpu_samples >= samples, "samples", ENOUGH_S)
        capture.stop()
        capture.finish_symbols(60)
    target.finish()
    tally = Truth(tmp_path).compare(samples_of(capture))
    counts = tally.counts
    print(version, dict(counts))  # for those who run it by hand: pytest -s
    compared = counts["running"] + counts["waiting"]
    unexplained = sum(count for what, count in counts.items() if what.endswith("unexplained"))
    assert counts["running"] >= 0.8 * samples, counts
    assert counts["lines"] >= 0.5 * samples, counts
    assert unexplained <= max(MOST_UNEXPLAINED_SHORT, UNEXPLAINED * compared), tally
    assert not counts["wrong name"], tally
    assert not counts["wrong line"], tally
    if version not in STRIPPED:
        assert counts["C functions between"] >= 0.05 * samples, counts
        assert not counts["C function missing"], tally
