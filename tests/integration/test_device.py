"""A process on a device, reached by TCP with TLS and a token."""

from __future__ import annotations

import signal
from dataclasses import replace
from pathlib import Path

import pytest

import cli
from device_portal import TOKEN, portal
from flametap.device.connect import Where
from flametap.device.device_capture import DeviceCapture
from flametap.model import LOOKS, Clock, Verdict
from recording import SYMBOLS_S, share_of, stacks
from running import Start, wait_until

pytestmark = pytest.mark.needs("attach", "gcc", "openssl")

RATE_HZ = 100.0
CPU_S = 8.0
TOLERANCE = 0.06  # four times the deviation of 800 looks


def test_shares_stacks_and_a_connection_that_is_cut(start: Start, tmp_path: Path) -> None:
    target = start("ratio", variant="frame-pointers")
    said: list[str] = []
    with portal(target.pid, tmp_path) as device:
        where = Where(host=device.address, certificate=str(device.certificate), token=TOKEN)
        capture = DeviceCapture(where, str(target.pid), rate_hz=RATE_HZ, say=said.append)
        try:
            capture.start()
            wait_until(lambda: capture.profile.total_ns(Clock.CPU) > 1e9 * CPU_S, "CPU time", 60)
            capture.set_paused(True)
            capture.set_paused(False)
            capture.stop()
            assert capture.finish_symbols(SYMBOLS_S)
            found = stacks(capture)  # type: ignore[arg-type]
            assert found.share("heavy") == pytest.approx(0.75, abs=TOLERANCE), found.heaviest()
            assert found.share("main") > 0.95, found.heaviest()
            assert share_of(capture, Verdict.GUESSED) > 0.95  # type: ignore[arg-type]
            status = capture.status()
            assert status.engine == LOOKS
            assert status.is_final
            assert any("no CPU time" in note for note in status.notes)
        finally:
            capture.close()
        assert _our_handlers(target.pid) == 0
        # Another one, which is cut.
        where = replace(where, host=f"127.0.0.1:{device.line.port}")
        capture = DeviceCapture(where, "ratio", rate_hz=RATE_HZ, say=said.append)
        try:
            capture.start()
            device.line.cut()
            assert capture.wait(30)
            assert capture.finish_symbols(SYMBOLS_S)
            assert "lost" in capture.status().reason
        finally:
            capture.close()
        wait_until(lambda: _our_handlers(target.pid) == 0, "the agent to leave")
    target.finish()


def _our_handlers(pid: int) -> int:
    """Return 1 if the program has a handler for our signal."""
    (line,) = (
        each
        for each in Path(f"/proc/{pid}/status").read_text().splitlines()
        if each.startswith("SigCgt:")
    )
    return int(line.split()[1], 16) >> (signal.SIGURG - 1) & 1


def test_command_records_and_wrong_tokens_are_said(start: Start, tmp_path: Path) -> None:
    target = start("ratio", variant="frame-pointers")
    output = tmp_path / "found.folded"
    with portal(target.pid, tmp_path) as device:
        words = ("record", "-H", device.address, "ratio", "-d", 1, "-o", output)
        tls = ("--certificate", device.certificate)
        result = cli.run(*words, *tls, "--token", TOKEN)
        assert result.exit_code == 0, result.stderr
        assert "heavy" in output.read_text()
        assert "GLib" not in result.stdout
        missing = tmp_path / "missing.pem"
        for more, what in (
            ((*tls, "--token", "wrong"), "refuses the token"),
            (tls, "asks for a token"),
            (("--token", TOKEN), "encrypted line"),
            (("--certificate", missing), f"--certificate {missing} is no file"),
        ):
            result = cli.run(*words, *more)
            assert result.exit_code in (2, 5), result.stderr
            assert what in result.stderr
            assert "Traceback" not in result.stderr
        result = cli.run("record", "-H", device.address, *tls, "--token", TOKEN, "nobody", "-d", 1)
        assert result.exit_code == 3
        assert "no process nobody runs" in result.stderr


def test_nobody_listens() -> None:
    result = cli.run("record", "-H", "127.0.0.1:1", "1", "-d", 1)
    assert result.exit_code == 5
    assert "cannot be reached" in result.stderr
