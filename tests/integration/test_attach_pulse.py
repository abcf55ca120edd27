"""The host looks at threads that compute while it attaches, and keeps out of their waits
(``tests/targets/pulse.c``)."""

from __future__ import annotations

import os
import re

import pytest

import cli
import receipt
from running import Start

pytestmark = pytest.mark.needs("attach", "gcc")

ATTACHES = int(os.environ.get("FLAMETAP_TEST_CYCLES", "3"))


def test_thread_that_computes_and_waits_by_turns_loses_no_wait(start: Start) -> None:
    target = start("pulse", "1")
    before = receipt.take_at_rest(target.pid)
    for _ in range(ATTACHES):
        cli.run(
            *("record", "-p", target.pid, "-d", 0.5, "-r", 1000, "-f", "folded", "-o", os.devnull)
        ).assert_saved()
    found = receipt.harm_after_settling(target.pid, before, attaches=ATTACHES, timeout_s=60)
    assert found == []
    (report,) = target.finish()
    assert re.fullmatch(r"waits \d\d+ eintr 0", report), report
