"""A target that changes all that a profiler reads of it, at random, while it is recorded.

Each round ends with a named exit code, and what it saved can be opened.
"""

from __future__ import annotations

import json
import random
import re
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from cli import COMMAND
from nightly import nightly
from running import Target
from targetbuild import Builder

SAVED, ENDED_EARLY, NO_PROCESS, REFUSED, NOTHING, FAULT = 0, 1, 3, 5, 6, 7
ATTACKS = "nmjtslfr"
MEMORY_BYTES = 1 << 30
ROUND_S = 2.0
END_S = 120.0


def record(target: Target, folder: Path, seconds: float) -> int:
    """Record as root at 1 000 Hz; check the end, and return the exit code."""
    outputs = [folder / "out.folded", folder / "out.speedscope.json"]
    arguments = ["record", str(target.pid), "-d", str(seconds), "-r", "1k", "--budget", "0"]
    for output in outputs:
        output.unlink(missing_ok=True)
        arguments += ["-o", str(output)]
    errors = folder / "stderr"
    most_bytes = 0
    with errors.open("w") as stderr:
        process = subprocess.Popen([*COMMAND, *arguments], stderr=stderr)
        deadline_s = time.monotonic() + seconds + END_S
        status = Path(f"/proc/{process.pid}/status")
        while process.poll() is None:
            found = re.search(r"VmHWM:\s+(\d+) kB", status.read_text())
            most_bytes = max(most_bytes, int(found[1]) << 10 if found else 0)
            if time.monotonic() > deadline_s:
                process.kill()
                process.wait()
                raise AssertionError(f"it does not end: {errors.read_text()}")
            time.sleep(0.05)
    said = errors.read_text()
    assert process.returncode in (SAVED, ENDED_EARLY, NO_PROCESS, REFUSED, NOTHING, FAULT), said
    assert "Traceback" not in said, said
    assert "\x1b" not in said
    assert most_bytes < MEMORY_BYTES
    if process.returncode in (SAVED, ENDED_EARLY, FAULT) and "cannot be attached" not in said:
        opened(outputs)
    return process.returncode


def opened(outputs: list[Path]) -> None:
    """Open what was saved."""
    folded, speedscope = outputs
    for output in outputs:
        assert not re.search(rb"[\x00-\x09\x0b-\x1f\x7f]", output.read_bytes()), output
    for line in folded.read_text("utf-8").split("\n")[:-1]:
        stack, _, weight = line.rpartition(" ")
        assert stack, line
        assert int(weight) >= 0, line
    saved = json.loads(speedscope.read_bytes())
    frames = len(saved["shared"]["frames"])
    for profile in saved["profiles"]:
        assert len(profile["samples"]) == len(profile["weights"])
        assert all(0 <= frame < frames for stack in profile["samples"] for frame in stack)


@pytest.mark.needs("setpriv")
@pytest.mark.parametrize(("seed", "rounds", "attacks"), [(1, 1, ATTACKS), (2, 1, "nmjtslf")])
def test_mutating_target_neither_stops_nor_spoils_a_recording(
    seed: int,
    rounds: int,
    attacks: str,
    builder: Builder,
    start_theirs: Callable[..., Target],
    their_folder: Path,
    tmp_path: Path,
) -> None:
    program = their_folder / "mutator"
    shutil.copy(builder.program("mutator"), program)
    program.chmod(0o755)
    for number in range(rounds):
        target = start_theirs(program, their_folder, str(seed * 1000 + number), attacks)
        record(target, tmp_path, ROUND_S)
        target.close()


@pytest.mark.needs("setpriv")
@pytest.mark.parametrize("minutes", nightly(10))
def test_mutating_target_for_long(
    minutes: int,
    builder: Builder,
    start_theirs: Callable[..., Target],
    their_folder: Path,
    tmp_path: Path,
) -> None:
    """Half of the time one recording, then many of some seconds each, by any choice of attacks."""
    program = their_folder / "mutator"
    shutil.copy(builder.program("mutator"), program)
    program.chmod(0o755)
    target = start_theirs(program, their_folder, "1", "nmjtsl")
    assert record(target, tmp_path, minutes * 30) == SAVED
    target.close()
    choose, end_s, codes = random.Random(1), time.monotonic() + minutes * 30, dict[int, int]()
    while time.monotonic() < end_s:
        attacks = "".join(choose.sample(ATTACKS, choose.randrange(1, len(ATTACKS) + 1)))
        target = start_theirs(program, their_folder, str(choose.randrange(1 << 20)), attacks)
        code = record(target, tmp_path, choose.choice((1, 3, 8)))
        codes[code] = codes.get(code, 0) + 1
        target.close()
    print(f"exit codes: {codes}")
    assert codes.get(SAVED)
