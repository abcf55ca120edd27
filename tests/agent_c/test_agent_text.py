"""The whole agent is one text that gcc takes without a warning."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from agent_build import WARNINGS
from flametap.agent import source

pytestmark = pytest.mark.needs("gcc")


@pytest.mark.parametrize("level", ["-O0", "-O2"])
def test_gcc_has_no_warning(level: str, tmp_path: Path) -> None:
    """At -O2 too: some warnings come only with the analysis the optimiser makes."""
    text = tmp_path / "agent.c"
    text.write_text(source(), "utf-8")
    command = ["gcc", *WARNINGS, level, "-c", "-o", "/dev/null", str(text)]
    built = subprocess.run(command, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
