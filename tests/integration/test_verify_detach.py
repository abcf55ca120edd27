"""``--verify-detach``: a receipt that is clean, one that is not, and one of a busy process."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

import cli
from flametap.safety import snapshot
from running import Start, wait_until

pytestmark = pytest.mark.needs("attach", "gcc")


def test_receipt_of_a_quiet_process_is_clean(start: Start, tmp_path: Path) -> None:
    target = start("parked", "short")
    out = tmp_path / "out.folded"
    result = cli.run(
        "record", "-p", target.pid, "-d", 0.5, "--clock", "wall", "--verify-detach", "-o", out
    )
    result.assert_saved()
    assert "of ours is left in it" in result.stderr
    assert "left by the injection: " in result.stderr
    assert "probably by the process itself" not in result.stderr
    assert result.stdout == ""
    target.finish()


def test_busy_process_is_not_blamed_on_us(start: Start, tmp_path: Path) -> None:
    target = start("churn")
    result = cli.run(
        "record", "-p", target.pid, "-d", 0.5, "--verify-detach", "-o", tmp_path / "out.folded"
    )
    result.assert_saved()
    assert "of ours is left in it" in result.stderr
    target.finish()


def test_changed_code_is_told_and_the_recording_saved(start: Start, tmp_path: Path) -> None:
    target = start("ratio")
    out = tmp_path / "out.folded"
    libc = next(
        mapping
        for mapping in snapshot.mappings(target.pid)
        if "x" in mapping.permissions and mapping.path.endswith("libc.so.6")
    )
    with cli.Running(
        str(tmp_path), "record", "-p", target.pid, "-d", 3, "--verify-detach", "-o", out
    ) as run:
        ring = "flametap-ring"
        wait_until(lambda: ring in Path(f"/proc/{target.pid}/maps").read_text(), ring)
        # The last byte of the mapping: padding that nothing runs.
        memory = os.open(f"/proc/{target.pid}/mem", os.O_RDWR)
        was = os.pread(memory, 1, libc.end - 1)
        os.pwrite(memory, bytes([was[0] ^ 0xFF]), libc.end - 1)
        os.close(memory)
        result = run.result(30)
    assert result.exit_code == 7, result.stderr
    assert re.search(r"left behind .* code of libc\.so\.6 at .* is not what it was", result.stderr)
    assert out.read_text()
    target.finish()


def test_process_that_has_ended_has_no_receipt(tmp_path: Path) -> None:
    out = tmp_path / "out.folded"
    spin = "for i in range(10**7): pass"
    result = cli.run("record", "--verify-detach", "-o", out, "--", "python3", "-c", spin)
    result.assert_saved()
    assert "has ended" in result.stderr
