"""A program that looks like CPython, or is one, and lies about its functions."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from attacker import SAVED, record
from flametap.analysis.views import views_of
from flametap.model import Clock
from flametap.tree.selection import Selection
from recording import record as capture_of
from running import Target
from targetbuild import Builder

pytestmark = pytest.mark.needs("setpriv", "attach")

ROUND_S = 2.0
SECRET = "the secret of root"
# Runs a function that says to come from another file.
LIAR = """
import sys
print("ready", flush=True)
text = "def work():\\n    n = 0\\n    while True:\\n        n += 1\\nwork()\\n"
exec(compile(text, sys.argv[1], "exec"))
"""


def fake(builder: Builder, their_folder: Path) -> Path:
    """The program, where another user may run it."""
    program = their_folder / "fakepython"
    shutil.copy(builder.program("fakepython", "exported"), program)
    program.chmod(0o755)
    return program


def test_structures_without_damage_are_shown(
    builder: Builder,
    start_theirs: Callable[..., Target],
    their_folder: Path,
) -> None:
    target = start_theirs(fake(builder, their_folder), "none")
    capture = capture_of(target.pid, 0.3, cpu_s=0.2)
    try:
        assert "spin" in {function.name for function in capture.recording.functions}
    finally:
        capture.close()


@pytest.mark.parametrize("seed", [1, 2])
def test_damaged_structures_neither_stop_nor_spoil_a_recording(
    seed: int,
    builder: Builder,
    start_theirs: Callable[..., Target],
    their_folder: Path,
    tmp_path: Path,
) -> None:
    target = start_theirs(fake(builder, their_folder), "random", str(seed))
    assert record(target, tmp_path, ROUND_S) == SAVED
    (report,) = target.finish()
    assert int(report.removeprefix("strikes ")) > 0


def test_frames_in_a_circle_do_not_hold_the_thread(
    builder: Builder,
    start_theirs: Callable[..., Target],
    their_folder: Path,
    tmp_path: Path,
) -> None:
    target = start_theirs(fake(builder, their_folder), "circle")
    assert record(target, tmp_path, ROUND_S) == SAVED
    assert target.finish() == ["strikes 1"]


@pytest.mark.needs("python")
def test_page_shows_no_file_that_a_python_program_names_and_may_not_read(
    their_folder: Path,
    tmp_path: Path,
    start_theirs: Callable[..., Target],
    require_capability: Callable[[str], str],
) -> None:
    secret = tmp_path / "secret.py"
    secret.write_text(f"{SECRET}\n" * 30)
    secret.chmod(0o600)
    script = their_folder / "liar.py"
    script.write_text(LIAR)
    os.chmod(script, 0o644)
    target = start_theirs(require_capability("python"), script, str(secret))
    capture = capture_of(target.pid, 0.3, cpu_s=0.2)
    try:
        (number,) = [n for n, each in enumerate(capture.recording.functions) if each.name == "work"]
        found = views_of(capture.recording).lines(number, Selection(Clock.CPU))
        assert {line.file for line in found.lines} == {str(secret)}
        assert {line.text for line in found.lines} == {None}
        assert any("permission denied" in note for note in found.notes), found.notes
    finally:
        capture.close()
