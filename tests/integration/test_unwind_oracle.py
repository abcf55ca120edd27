"""Stacks of parked threads are those that eu-stack sees, address by address."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

import oracle
from recording import SYMBOLS_S, capturing
from workloads import WAITING

pytestmark = pytest.mark.needs("attach", "eu-stack")

BAR = 0.999
# The others: FLAMETAP_TEST_SECONDS=5.
SHORT = ("redis", "node", "java", "python3.12", "nginx")
TELLING = ("redis", "java")
NAMES = WAITING if float(os.environ.get("FLAMETAP_TEST_SECONDS", "0")) >= 5 else SHORT
STACKS = 20  # at least, however short the test
LONGEST_S = 30.0


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(
            name,
            marks=[pytest.mark.needs(*WAITING[name].needs)]
            + [pytest.mark.nightly] * (name not in TELLING),
        )
        for name in NAMES
    ],
)
def test_parked_stacks_agree(name: str, tmp_path: Path, seconds: float) -> None:
    with WAITING[name].start(tmp_path) as pid, capturing(pid, rate_hz=1000) as capture:
        moments: list[oracle.Moment] = []
        start, compared = time.monotonic(), 0
        while (now := time.monotonic()) < start + seconds or (
            compared < STACKS and now < start + LONGEST_S
        ):
            moments.append(oracle.take_moment(capture))
            compared += len(moments[-1].stacks)
        maps = Path(f"/proc/{pid}/maps").read_text("utf-8", "replace")
        capture.stop()
        capture.finish_symbols(SYMBOLS_S)
        result = oracle.compare(capture, moments, maps)
    differences = [oracle.describe(pid, each, maps) for each in result.differing]
    print(
        f"{name}: {len(moments)} moments, {result.compared} stacks compared, "
        f"{len(result.distinct)} different ones, {result.unseen} not seen in time, "
        f"{result.lost} where the other was lost, {len(result.differing)} differ"
    )
    assert result.compared > 0
    assert result.share >= BAR, "\n".join(differences[:8])
