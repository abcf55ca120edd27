"""A program with as many mappings as the kernel allows by half (``tests/targets/patchwork.c``)."""

from __future__ import annotations

from pathlib import Path

import pytest

import receipt
from recording import doubts, record, stacks
from running import Start

pytestmark = pytest.mark.needs("attach", "gcc")

MAPPINGS = 30_000
CPU_S = 2.0  # 500 ticks of the kernel: the margins are five standard errors
SPARE = 5_000  # for the libraries, and for Frida and the agent
LIMIT = Path("/proc/sys/vm/max_map_count")


def test_shares_in_a_program_of_many_mappings_are_right(start: Start) -> None:
    if int(LIMIT.read_text()) < MAPPINGS + SPARE:
        pytest.skip(f"{LIMIT} is below {MAPPINGS + SPARE}")
    target = start("patchwork", str(MAPPINGS))
    before = receipt.take_at_rest(target.pid)
    capture = record(target.pid, 1.0, cpu_s=CPU_S)
    cpu = stacks(capture)
    assert receipt.harm_after_settling(target.pid, before, timeout_s=60) == []
    assert target.finish() == ["spoilt 0"]
    assert cpu.share("heavy") == pytest.approx(0.75, abs=0.1), (
        f"{cpu.heaviest()}\n{doubts(capture)}"
    )
    assert cpu.share("light") == pytest.approx(0.25, abs=0.1), (
        f"{cpu.heaviest()}\n{doubts(capture)}"
    )
