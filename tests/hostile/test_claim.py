"""Nobody keeps flametap out of a process that is not theirs."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import cli
from running import Start, Target

pytestmark = pytest.mark.needs("attach", "gcc", "setpriv")

# Takes the name of a process by which attaches kept each other out, and tries its files.
SQUATTER = """
import fcntl, os, socket, sys
pid, start = sys.argv[1:]
claim = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
for space in {os.stat("/proc/self/ns/pid").st_ino}:
    claim.bind(f"\\0flametap-{space}-{pid}-{start}")
for name in ("mem", "maps", "stat"):
    try:
        file = os.open(f"/proc/{pid}/{name}", os.O_RDONLY)
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        pass
print("ready", flush=True)
sys.stdin.read()
"""


def test_another_user_cannot_take_a_process_that_is_not_theirs(
    start: Start, start_theirs: Callable[..., Target], tmp_path: Path
) -> None:
    target = start("parked", "short")
    start_ticks = Path(f"/proc/{target.pid}/stat").read_text().rpartition(")")[2].split()[19]
    start_theirs(sys.executable, "-c", SQUATTER, str(target.pid), start_ticks)
    output = tmp_path / "out.folded"
    cli.run("record", "-p", target.pid, "-d", 0.5, "--clock=wall", "-o", output).assert_saved()
    assert os.path.getsize(output)
    target.finish()
