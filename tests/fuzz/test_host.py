"""Readers of hostile bytes in flametap's own process: a moment of what ``make fuzz-host`` does."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import host_readers
from nightly import nightly

RUNNER = Path(__file__).with_name("run_host.py")
TIMEOUT_S = 3600
OPENED = 400  # recordings, in some three seconds
# Readers with a defect each, and what is to be found.
DEFECTS = {
    "raise KeyError('x')": "KeyError: 'x'",
    "while True: pass": "over 1 s",
    "os.abort()": "died with wait status 0x6",
    "bytearray(1 << 31)": "MemoryError",
    "kept.append(b'x' * (300 << 20))": "MB of memory",
}
PROBE = """
import os, sys, tempfile
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from host_fuzzing import Reader, run
kept, calls = [], []
def read(data):
    calls.append(0)
    if len(calls) == 2:  # the first is the seed
        {defect}
result = run("probe", Reader(lambda _: [b"seed"], read, (ValueError,)), Path("/"), 1, range(3))
print(result.findings)
"""


@pytest.mark.parametrize("runs", [60, *nightly(20_000)])
def test_no_input_stops_a_reader(runs: int) -> None:
    done = subprocess.run(
        [sys.executable, str(RUNNER), "--runs", str(runs)],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    for name, reader in host_readers.READERS.items():
        assert f"{name}: {max(1, runs // reader.cost):,} inputs in " in done.stdout


def test_no_recording_stops_what_opens_it() -> None:
    """More inputs of one reader: a second takes hundreds, and recordings come from anywhere."""
    done = subprocess.run(
        [sys.executable, str(RUNNER), "recording-open", "--runs", str(OPENED), "--seed", "2"],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("defect", DEFECTS)
def test_defects_are_found(defect: str) -> None:
    """Else the test above says nothing."""
    code = PROBE.format(defect=defect)
    support = Path(host_readers.__file__).parent
    done = subprocess.run(
        [sys.executable, "-c", code, str(support)], capture_output=True, text=True, check=True
    )
    assert DEFECTS[defect] in done.stdout, done.stdout
    assert done.stdout.count("number") <= 1
