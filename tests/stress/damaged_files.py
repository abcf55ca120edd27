"""Files that are opened instead of a target: recordings that were damaged."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from pathlib import Path

from harness import Run, scenario

RUNNER = Path(__file__).resolve().parents[1] / "fuzz" / "run_host.py"
RUNS = 4_000  # of each turn: some ten seconds to open, and as long to read a twentieth
SHORT_RUNS = 400
TURN_S = 30.0
COUNTS = re.compile(r"^(recording[a-z-]*): ([\d,]+) inputs in .* (\d+) findings$", re.MULTILINE)


@scenario()
def recording_files(run: Run) -> None:
    """Damaged recordings are refused, or read in all ways."""
    until, done = time.monotonic() + run.seconds, dict.fromkeys(("recording", "recording-open"), 0)
    runs = RUNS if run.seconds > TURN_S else SHORT_RUNS
    first = 0
    while not first or time.monotonic() < until:
        seed = run.random.randrange(1 << 32)
        command = [sys.executable, str(RUNNER), *done, "--seed", str(seed), "--runs", str(runs)]
        turn = subprocess.run(command, capture_output=True, text=True, check=False)
        run.expect(turn.returncode == 0, turn.stdout + turn.stderr)
        for name, inputs, _ in COUNTS.findall(turn.stdout):
            done[name] += int(inputs.replace(",", ""))
        first += runs
    for name, inputs in done.items():
        run.fact(name, inputs)
