"""Programs of another user: ``nobody``, who is nobody else on the machines that we test on."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from running import Target

UID = GID = 65534
# A program that they may run: it only waits.
SLEEPER = """
#include <stdio.h>
#include <unistd.h>
int main(void) { puts("ready"); fflush(stdout); for (;;) pause(); }
"""
AS_NOBODY = ["setpriv", f"--reuid={UID}", f"--regid={GID}", "--clear-groups"]


def start(argv: Iterable[str | Path], *, announces: bool = True, cwd: Path | None = None) -> Target:
    """Start a program as ``nobody`` and wait until it is ready, if it ``announces`` that. Its pid
    is the program's own. Needs root ("setpriv" in ``capabilities.py``)."""
    return Target([*AS_NOBODY, *argv], announces=announces, cwd=cwd)
