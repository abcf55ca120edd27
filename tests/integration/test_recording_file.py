"""A recording that is kept in a file while it is made, and opened again (``recording/``)."""

from __future__ import annotations

import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

import cli
from flametap.analysis.code_to_keep import code_chunks
from flametap.capture.capture_options import CaptureOptions
from flametap.capture.live import Capture
from flametap.recording.opened import open_recording
from flametap.recording.reader import CUT_OFF
from page_answers import answers
from running import Start, wait_until

pytestmark = pytest.mark.needs("attach", "gcc")

RECORDED_S = 1.5
SYMBOLS_S = 60.0
ENOUGH_BYTES = 4_000


def kept(pid: int, path: Path) -> Capture:
    """Record for a while into a file; return the capture, which is closed by the caller."""
    capture = Capture(pid, CaptureOptions(rate_hz=250.0))
    capture.keep_in(path.open("wb"), str(path))
    capture.start()
    assert not capture.wait(RECORDED_S)
    capture.stop()
    assert capture.finish_symbols(SYMBOLS_S)
    assert capture.keeper is not None
    capture.keeper.finish(code_chunks(capture.recording.process))
    assert capture.keeper.error is None
    return capture


@pytest.mark.parametrize("program", ["ratio", "waits quiet"])
def test_page_answers_from_the_file_as_it_did_at_the_end(
    start: Start, tmp_path: Path, program: str
) -> None:
    target = start(*program.split())
    path = tmp_path / "kept.flametap"
    capture = kept(target.pid, path)
    try:
        live = answers(capture.recording)
        opened = answers(open_recording(str(path)))
        assert live.keys() == opened.keys()
        for each in live:
            assert live[each] == opened[each], each
    finally:
        capture.close()


def test_file_of_a_host_that_was_killed_opens(start: Start, tmp_path: Path) -> None:
    target = start("ratio")
    path, out = tmp_path / "cut.flametap", tmp_path / "out.folded"
    command = [sys.executable, "-m", "flametap", "record", "-p", str(target.pid), "-o", str(path)]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as host:
        wait_until(lambda: path.exists() and path.stat().st_size > ENOUGH_BYTES, "a part", 30)
        host.kill()
    opened = open_recording(str(path))
    assert opened.status().reason == CUT_OFF
    assert opened.status().duration_ns > 0
    found = cli.run("export", path, "-o", out)
    assert found.exit_code == 0, found.stderr
    assert "cut off after" in found.stderr
    assert out.read_text()


def test_record_open_and_export_by_their_commands(start: Start, tmp_path: Path) -> None:
    target = start("ratio")
    path = tmp_path / "whole.flametap"
    recorded, exported = tmp_path / "recorded.folded", tmp_path / "exported.folded"
    cli.run(
        *("record", "-p", target.pid, "-d", 1, "-o", path, "-o", recorded, "--threads")
    ).assert_saved()
    found = cli.run("export", path, "-o", exported, "--threads")
    assert found.exit_code == 0, found.stderr
    assert exported.read_text() == recorded.read_text()
    command = [sys.executable, "-m", "flametap", "open", str(path), "--no-open", "-q"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        url = server.stdout.readline().strip()
        with urllib.request.urlopen(url) as page:
            assert b"flametap" in page.read()
        server.send_signal(signal.SIGINT)
        assert server.wait(30) == 0
