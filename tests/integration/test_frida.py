"""Frida's way in, as a whole. All other tests go by it with FLAMETAP_TEST_WAY=frida, but for those
of the direct way; ``test_attach`` has what may go wrong within."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import cli
import receipt
from flametap.analysis.views import views_of
from flametap.model import Clock
from flametap.tree.selection import Selection
from recording import capturing
from running import Start, wait_until
from stacks import of_tree

pytestmark = pytest.mark.needs("attach", "gcc")

ENOUGH_NS = 5e8
ENOUGH_S = 120.0


def test_shares_are_right_and_nothing_stays(start: Start) -> None:
    target = start("ratio")
    before = receipt.take_at_rest(target.pid)
    with capturing(target.pid, way="frida") as capture:
        wait_until(lambda: capture.profile.total_ns(Clock.CPU) >= ENOUGH_NS, "samples", ENOUGH_S)
        capture.set_sampling(500.0, 0.0)
        capture.set_paused(True)
        capture.set_paused(False)
        capture.stop()
        assert capture.finish_symbols(ENOUGH_S)
    assert of_tree(views_of(capture.recording).tree(Selection(Clock.CPU))).share(
        "heavy"
    ) == pytest.approx(0.75, abs=0.1)
    assert receipt.harm_after_settling(target.pid, before) == []
    target.finish()


def test_dump_and_record(start: Start, tmp_path: Path) -> None:
    target = start("parked", "short")
    dumped = cli.run("dump", target.pid, "--inject", "frida")
    dumped.assert_saved()
    assert "waits in" in dumped.stdout
    output = tmp_path / "out.folded"
    arguments = ("record", "-p", target.pid, "-d", 0.5, "--clock", "wall", "-o", output)
    cli.run(*arguments, "--inject", "frida").assert_saved()
    assert output.read_text()
    for line in target.finish():
        assert re.fullmatch(r"\w+ returns=\d\d+ eintr=\d", line), line
