"""A recording that is kept in a file while it is made, and opened again (``recording/``)."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest

import cli
from flametap.analysis.views import views_of
from flametap.capture.capture_options import CaptureOptions
from flametap.capture.live import Capture
from flametap.model import Clock
from flametap.recording.opened import open_recording
from flametap.recording.reader import CUT_OFF
from flametap.tree.selection import Selection
from nightly import nightly
from page_answers import answers
from running import Start, Target, wait_until
from targetbuild import SOURCES, Builder

pytestmark = pytest.mark.needs("attach", "gcc")

Adopt = Callable[[Target], Target]

INTERPRETERS = {"python": [sys.executable], "node": ["node"]}
RECORDED_S = 1.5
SYMBOLS_S = 60.0
ENOUGH_BYTES = 4_000
ENOUGH_SAMPLES = 100


def kept(pid: int, path: Path) -> Capture:
    """Record for a while into a file; return the capture, which is closed by the caller."""
    capture = Capture(pid, CaptureOptions(rate_hz=250.0))
    capture.keep_in(path.open("wb"), str(path))
    capture.start()
    assert not capture.wait(RECORDED_S)
    capture.stop()
    assert capture.finish_symbols(SYMBOLS_S)
    assert capture.keeper is not None
    capture.keeper.finish()
    assert capture.keeper.error is None
    return capture


def started(program: str, start: Start, adopt: Adopt, builder: Builder) -> Target:
    """Start a program: of C or C++ by its name, or in one of the languages."""
    language, _, name = program.partition(":")
    if not name:
        return start(*program.split())
    if language == "java":
        return adopt(Target(["java", "-cp", str(builder.java_class(name)), name]))
    return adopt(Target([*INTERPRETERS[language], SOURCES / name]))


@pytest.mark.parametrize(
    "program",
    [
        *("ratio", "waits quiet"),
        *nightly("inlines", "python:ratio.py", "java:Ratio", "node:ratio.js", "crowd 200"),
    ],
)
def test_page_answers_from_the_file_as_it_did_at_the_end(
    start: Start, adopt: Adopt, builder: Builder, tmp_path: Path, program: str
) -> None:
    target = started(program, start, adopt, builder)
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


def test_copy_that_is_saved_while_it_is_recorded_opens(start: Start, tmp_path: Path) -> None:
    target = start("ratio")
    capture = Capture(target.pid, CaptureOptions(rate_hz=250.0))
    path, copy = tmp_path / "kept.flametap", tmp_path / "copy.flametap"
    capture.keep_in(path.open("wb"), str(path))
    capture.start()
    try:
        wait_until(lambda: capture.profile.samples > ENOUGH_SAMPLES, "samples", SYMBOLS_S)
        assert capture.finish_symbols(SYMBOLS_S)
        assert capture.recording.copy_to is not None
        with copy.open("wb") as file:
            capture.recording.copy_to(file)
        saved_ns = capture.profile.total_ns(Clock.CPU)
    finally:
        capture.close()
    opened = open_recording(str(copy))
    status = opened.status()
    assert (status.state, status.reason) == ("ended", "it was saved while it was made")
    assert status.pid == target.pid
    assert 0 < opened.profile.total_ns(Clock.CPU) <= saved_ns
    assert {"heavy", "light"} <= {each.name for each in opened.functions}
    (heavy,) = (at for at, each in enumerate(opened.functions) if each.name == "heavy")
    assert views_of(opened).instructions(heavy, Selection(Clock.CPU)).rows
    target.finish()


def test_sources_and_arguments_can_be_left_out(start: Start, tmp_path: Path) -> None:
    target = start("ratio", "--secret=42")
    path = tmp_path / "kept.flametap"
    cli.run(
        *("record", "-p", target.pid, "-d", RECORDED_S, "-o", path, "--no-sources")
    ).assert_saved()
    opened = open_recording(str(path))
    assert opened.status().command.endswith("ratio")
    assert "secret" not in "".join(cli.run("info", path).stdout.splitlines())
    for number, function in enumerate(opened.functions):
        if function.file:
            found = views_of(opened).lines(number, Selection(Clock.WALL))
            assert not any(line.text for line in found.lines), function
    target.finish()


def test_last_part_is_saved_when_it_is_asked_for_and_when_the_process_dies(
    start: Start, tmp_path: Path
) -> None:
    target = start("ratio")
    assert "no flametap records process" in cli.run("save", target.pid).stderr
    command = [sys.executable, "-m", "flametap", "record", "-p", str(target.pid), "--keep", "1"]
    out = str(tmp_path / "%n-%t.flametap")
    with subprocess.Popen([*command, "-o", out], stderr=subprocess.PIPE, text=True) as host:
        wait_until(
            lambda: cli.run("save", target.pid).exit_code == 0, "a recorder that saves", SYMBOLS_S
        )
        wait_until(lambda: any(tmp_path.glob("ratio-*.flametap")), "a saved part", SYMBOLS_S)
        (first,) = tmp_path.glob("ratio-*.flametap")
        began_ns = open_recording(str(first)).profile.start_ns
        time.sleep(1.5)
        os.kill(target.pid, signal.SIGKILL)
        _, said = host.communicate(timeout=SYMBOLS_S)
    assert host.returncode == 0, said
    (last,) = set(tmp_path.glob("ratio-*.flametap")) - {first}
    found = open_recording(str(last)).profile
    assert found.start_ns > began_ns
    assert 0 < found.duration_ns <= 1.1e9
    assert found.total_ns(Clock.CPU) > 0


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
