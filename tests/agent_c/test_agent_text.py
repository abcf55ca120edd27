"""The whole agent is one text that gcc takes without a warning, and makes no call unasked that a
sandbox may kill for."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from agent_build import WARNINGS
from flametap.agent import C_SOURCES, source

# What nearly every sandbox lets pass that holds a program with threads.
COMMON = {
    *("READ", "CLOSE", "FSTAT", "MMAP", "MUNMAP", "MPROTECT", "MADVISE", "FUTEX"),
    *("RT_SIGACTION", "RT_SIGPROCMASK", "GETPID", "GETTID", "CLOCK_GETTIME", "CLOCK_NANOSLEEP"),
}
# The question itself, and what is called only before sampling begins.
UNASKED = {"PRCTL", "MEMFD_CREATE", "FTRUNCATE", "FCNTL", "PRLIMIT64", "UNAME", "CLOCK_GETRES"}
# At our thread's birth.
UNASKED |= {"CAPGET", "CAPSET"}
BIRTH = "entry/descriptors.c"
# Runs in the host.
HOSTS = "host/divert.c"
CALL = re.compile(r"\bsys_call[36]\((?:NR_)?(\w+)")


@pytest.mark.needs("gcc")
@pytest.mark.parametrize("level", ["-O0", "-O2"])
def test_gcc_has_no_warning(level: str, tmp_path: Path) -> None:
    """At -O2 too: some warnings come only with the analysis the optimiser makes."""
    text = tmp_path / "agent.c"
    text.write_text(source(), "utf-8")
    command = ["gcc", *WARNINGS, level, "-c", "-o", "/dev/null", str(text)]
    built = subprocess.run(command, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr


def test_unusual_calls_are_asked_for() -> None:
    apart = ("syscalls/seccomp_guard.c", BIRTH, HOSTS)
    names = tuple(name for name in C_SOURCES if name not in apart)
    called = set(CALL.findall(source(names))) - {"i64"}  # where they are defined
    assert called - COMMON - UNASKED == set(), "permit.c: permitted_call"
    assert set(CALL.findall(source((BIRTH,)))) == {
        *("CLOSE_RANGE", "UNSHARE"),
        *("OPENAT", "GETDENTS64"),  # where there is no close_range
    }
    # One that asks, and the signal, for which may_signal has asked.
    calls = set(CALL.findall(source(("syscalls/seccomp_guard.c",))))
    assert calls == {"nr", "GETPID", "RT_TGSIGQUEUEINFO"}
