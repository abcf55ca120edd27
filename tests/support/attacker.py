"""Record a target that attacks flametap, and judge the end."""

from __future__ import annotations

import json
import re
import subprocess
import time
from pathlib import Path

from cli import COMMAND
from running import Target

SAVED, ENDED_EARLY, NO_PROCESS, REFUSED, NOTHING, FAULT = 0, 1, 3, 5, 6, 7
MEMORY_BYTES = 1 << 30
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
