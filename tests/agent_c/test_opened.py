"""A wait with a mask of its own is ended by each signal that the mask lets in, whatever of ours
comes at the same moment: programs that wait so count on it, and would wait for ever (GNU make for a
job).
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

from agent_build import build_driver
from books import read_books
from flametap.agent import C_SOURCES

DRIVER = Path(__file__).parent / "opened.c"
MILLISECONDS = int(float(os.environ.get("FLAMETAP_TEST_SECONDS", "1.5")) * 1000)


def test_no_wait_goes_on_after_a_signal_that_its_mask_let_in(
    require_capability: Callable[[str], str],
) -> None:
    require_capability("gcc")
    program = build_driver(DRIVER, C_SOURCES, ("-O1", "-g1", "-pthread"))
    for factor in (1, 4, 16):  # longer where the machine left it too little time
        command = [str(program), str(factor * MILLISECONDS)]
        ran = subprocess.run(command, capture_output=True, timeout=120, check=False, text=True)
        assert ran.returncode == 0, ran.stderr
        facts = read_books(ran.stdout.splitlines())["opened"]
        if min(facts["own"], facts["sent"]) > 100:
            break
    assert facts["own"] > 100, facts
    assert facts["sent"] > 100, facts
    assert facts["lost"] == 0, facts
