"""Stacks of parked threads are those that eu-stack or gdb sees, address by address."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

import oracle
from recording import capturing
from workloads import WAITING

pytestmark = pytest.mark.needs("attach", "eu-stack")

BAR = 0.999
# eu-stack does not know how to leave code that a JIT made, and goes on from a wrong place.
LOOKS = {"node": oracle.gdb, "java": oracle.gdb}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.needs(*p.needs)) for name, p in WAITING.items()]
)
def test_parked_stacks_agree(name: str, tmp_path: Path, seconds: float) -> None:
    with WAITING[name].start(tmp_path) as pid, capturing(pid, rate_hz=1000) as capture:
        moments: list[oracle.Moment] = []
        until = time.monotonic() + seconds
        while not moments or time.monotonic() < until:
            moments.append(oracle.take_moment(capture, LOOKS.get(name, oracle.eu_stack)))
        maps = Path(f"/proc/{pid}/maps").read_text("utf-8", "replace")
        capture.stop()
        result = oracle.compare(capture, moments)
    differences = [oracle.describe(pid, each, maps) for each in result.differing]
    print(
        f"{name}: {len(moments)} moments, {result.compared} stacks compared, "
        f"{len(result.distinct)} different ones, {result.unseen} not seen in time, "
        f"{len(result.differing)} differ"
    )
    assert result.compared > 0
    assert result.share >= BAR, "\n".join(differences[:8])
