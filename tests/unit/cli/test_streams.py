"""Standard streams that are closed, or lead to a full disk: nothing is lost without a word, no exit
code is another, and none of our files takes their place."""

from __future__ import annotations

import subprocess

import pytest

from cli import COMMAND, TIMEOUT_S

NO_PID = "4194305"  # beyond the kernel's highest


def run(redirection: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    script = f'exec "$@" {redirection}'
    return subprocess.run(
        ["sh", "-c", script, "sh", *COMMAND, *arguments],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )


@pytest.mark.parametrize("redirection", ["2>&-", "2>/dev/full", "<&- >&- 2>&-"])
def test_without_stderr_the_exit_code_is_the_same(redirection: str) -> None:
    result = run(redirection, "record", "-p", NO_PID)
    assert (result.returncode, result.stdout, result.stderr) == (3, "", "")


@pytest.mark.parametrize(
    ("redirection", "reason"),
    [(">&-", "Bad file descriptor"), (">/dev/full", "No space left on device")],
)
@pytest.mark.parametrize("command", ["--version", "ps"])
def test_data_that_cannot_be_written_is_told(command: str, redirection: str, reason: str) -> None:
    result = run(redirection, command)
    assert result.returncode == 1
    assert result.stderr == f"flametap: cannot write standard output: {reason}\n"


@pytest.mark.needs("attach")
def test_what_it_starts_has_all_three_streams() -> None:
    result = run(
        "<&- 2>&-", "record", "-f", "folded", "-o", "/dev/null", "--", "ls", "/proc/self/fd"
    )
    assert result.stdout.split()[:3] == ["0", "1", "2"]
