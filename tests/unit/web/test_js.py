"""The modules of page and agent that need neither a DOM nor Frida, under node."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

TESTS = sorted((Path(__file__).parent / "js").glob("*.test.mjs"))


@pytest.mark.parametrize("path", TESTS, ids=lambda path: path.name)
def test_under_node(path: Path, require_capability: Callable[[str], str]) -> None:
    command = [require_capability("node"), "--test", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
