"""The agent samples alike as machine code and compiled by TinyCC in the target."""

from __future__ import annotations

import pytest

import receipt
from flametap.agent import machine_code
from flametap.model import Clock
from recording import complete_share, doubts, record, stacks
from running import Start

pytestmark = [pytest.mark.needs("attach", "gcc"), pytest.mark.usefixtures("attaches_from_here")]

SAMPLES = 300
MARGIN = 0.13  # four standard errors, and a cycle that is not whole


@pytest.mark.parametrize("compiler", ["gcc", "TinyCC"])
def test_shares_are_those_of_the_program(
    compiler: str, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_asked_for = []

    def installed() -> machine_code.MachineCode | None:
        is_asked_for.append(True)
        return made if compiler == "gcc" else None

    made = machine_code.installed()
    assert made is not None
    monkeypatch.setattr(machine_code, "installed", installed)
    target = start("ratio")
    before = receipt.take(target.pid)
    capture = record(target.pid, 1.5, rate_hz=250, samples=SAMPLES)
    assert is_asked_for
    seen = stacks(capture, Clock.CPU)
    share = seen.where(lambda stack: "heavy" in stack[-1]).total / seen.total
    assert abs(share - 0.75) <= MARGIN, f"{share}\n{seen.heaviest()}\n{doubts(capture)}"
    assert complete_share(capture) > 0.99, doubts(capture)
    assert receipt.harm_after_settling(target.pid, before) == []
