"""A target that turns on the ring: flametap keeps what it has, and ends with a named exit code."""

from __future__ import annotations

import re
import shutil
import stat
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from cli import COMMAND
from running import Target
from targetbuild import Builder

# What a recording of a few seconds takes is 150 MB; a ring of the size announced here is 3 GB.
MEMORY_BYTES = 512 << 20
SAVED, ENDED_EARLY = 0, 1


@dataclass(frozen=True)
class Ended:
    """A run of flametap that is over."""

    exit_code: int
    stderr: str
    memory_bytes: int  # the most that it had


def record(target: Target, output: Path) -> Ended:
    """Record as root for some seconds."""
    arguments = ["record", str(target.pid), "-d", "2", "-F", "500", "--budget", "0", "-o"]
    errors = output.with_suffix(".stderr")
    most_bytes = 0
    with errors.open("w") as stderr:
        process = subprocess.Popen([*COMMAND, *arguments, str(output)], stderr=stderr)
        # Not by wait4: the child begins as a copy of this process, which counts there.
        status = Path(f"/proc/{process.pid}/status")
        while process.poll() is None:
            found = re.search(r"VmHWM:\s+(\d+) kB", status.read_text())
            most_bytes = max(most_bytes, int(found[1]) << 10 if found else 0)
            time.sleep(0.02)
    return Ended(process.returncode, errors.read_text(), most_bytes)


@pytest.fixture
def attack(
    builder: Builder, start_theirs: Callable[..., Target], their_folder: Path, tmp_path: Path
) -> Callable[..., tuple[Ended, Path, Target]]:
    """Start ``ringbreaker`` as nobody, and record it as root."""

    def run(*arguments: str) -> tuple[Ended, Path, Target]:
        program = their_folder / "ringbreaker"
        if not program.exists():
            shutil.copy(builder.program("ringbreaker"), program)
            program.chmod(0o755)
        target = start_theirs(program, *arguments)
        output = tmp_path / "out.folded"
        ended = record(target, output)
        assert "Traceback" not in ended.stderr, ended.stderr
        assert ended.memory_bytes < MEMORY_BYTES, ended
        return ended, output, target

    return run


@pytest.mark.needs("setpriv")
@pytest.mark.parametrize("how", ["punch", "garbage", "positions"])
def test_ring_that_is_changed_ends_the_recording_at_worst(
    how: str, attack: Callable[..., tuple[Ended, Path, Target]]
) -> None:
    ended, output, target = attack(how)
    assert ended.exit_code in (SAVED, ENDED_EARLY), ended
    assert output.read_text("utf-8").strip()
    errors = [line for line in ended.stderr.splitlines() if line.startswith("flametap: ")]
    assert len(errors) == (ended.exit_code != SAVED), ended
    (struck,) = target.finish()
    assert struck != "struck 0"


@pytest.mark.needs("setpriv")
@pytest.mark.parametrize("how", ["replace", "pipe"])
def test_ring_is_in_no_table_that_the_target_can_change(
    how: str, attack: Callable[..., tuple[Ended, Path, Target]], their_folder: Path
) -> None:
    """The attacker looks for its descriptor all the time; our thread has a table of its own."""
    other = their_folder / "flametap-ring"
    ended, output, target = attack(how, str(other))
    assert ended.exit_code == SAVED, ended
    assert output.read_text("utf-8").strip()
    assert target.finish() == ["struck 0"]
    if how == "replace" and other.exists():
        assert stat.S_ISREG(other.stat().st_mode)
        assert other.stat().st_blocks <= 8, "flametap has written to it"
