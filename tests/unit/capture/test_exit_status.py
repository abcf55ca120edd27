"""How a process has ended that is not our child: a zombie, a reaped one, one on an older kernel."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator

import pytest

from flametap.capture import exit_status
from flametap.capture.exit_status import ExitStatus, ExitWatch

DEADLINE_S = 120.0


@pytest.fixture
def ended() -> Iterator[tuple[ExitWatch, subprocess.Popen[bytes]]]:
    """A zombie that was killed by SIGSEGV, and its watch."""
    child = subprocess.Popen(["sh", "-c", "read line; kill -s SEGV $$"], stdin=subprocess.PIPE)
    watch = ExitWatch(child.pid)
    assert not watch.has_exited()
    assert watch.status() is None
    assert child.stdin is not None
    child.stdin.close()
    assert watch.has_exited(DEADLINE_S)
    yield watch, child
    watch.close()
    child.wait()


SEGFAULT = ExitStatus(signal_number=signal.SIGSEGV)


def test_zombie_says_how_it_ended(ended: tuple[ExitWatch, subprocess.Popen[bytes]]) -> None:
    assert ended[0].status() == SEGFAULT


def test_kernel_keeps_the_status_of_a_reaped_one(
    ended: tuple[ExitWatch, subprocess.Popen[bytes]],
) -> None:
    watch, child = ended
    child.wait()
    if tuple(int(part) for part in os.uname().release.split(".")[:2]) < (6, 15):
        assert watch.status() is None
    else:
        assert watch.status() == SEGFAULT


def test_older_kernel_keeps_nothing(
    ended: tuple[ExitWatch, subprocess.Popen[bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exit_status, "PIDFD_GET_INFO", 0xC040_FFFF)
    watch, child = ended
    assert watch.status() == SEGFAULT
    child.wait()
    assert watch.has_exited()
    assert watch.status() is None


def test_process_that_has_gone_is_not_watched() -> None:
    child = subprocess.Popen(["true"])
    child.wait()
    watch = ExitWatch(child.pid)
    assert not watch.has_exited()
    assert watch.status() is None


@pytest.mark.parametrize(
    ("wait_status", "words", "is_fault"),
    [
        (0, "exited", False),
        (3 << 8, "exited with code 3", False),
        (signal.SIGKILL, "was killed by signal 9 (SIGKILL)", False),
        (signal.SIGINT, "was killed by signal 2 (SIGINT)", False),
        (signal.SIGABRT | 0x80, "was killed by signal 6 (SIGABRT)", True),  # with a core dump
        (signal.SIGTRAP, "was killed by signal 5 (SIGTRAP)", True),
        (50, "was killed by signal 50", False),
    ],
)
def test_words(wait_status: int, words: str, is_fault: bool) -> None:
    status = ExitStatus.of_wait_status(wait_status)
    assert (str(status), status.is_fault) == (words, is_fault)
