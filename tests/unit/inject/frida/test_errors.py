"""What a failed attach is said to have ended with."""

from __future__ import annotations

import errno
import os
import subprocess

import frida
import pytest

from flametap.errors import AttachFailedError, NoSuchProcessError, PermissionRefusedError
from flametap.inject.frida.errors import REPEATS, explain, repeats
from flametap.inject.frida.timed_call import NoAnswerError
from flametap.inject.link.endings import could_not_prepare
from flametap.linux import procfs
from running import wait_until


def test_our_own_errors_stay_as_they_are() -> None:
    error = AttachFailedError("no answer", "wait")
    assert explain(error, os.getpid()) is error


def test_fridas_errors_are_told_in_one_line() -> None:
    error = explain(frida.PermissionDeniedError("not allowed\nregisters"), os.getpid())
    assert isinstance(error, PermissionRefusedError)
    assert str(error) == f"no permission to attach to process {os.getpid()}: not allowed"


def test_sandbox_that_hides_proc_is_named() -> None:
    words = "bootstrapper failed due to 'auxv-not-found'; please file a bug"
    error = explain(frida.NotSupportedError(words), os.getpid())
    assert "Landlock" in str(error)
    assert error.exit_code == 5


@pytest.mark.parametrize("error", [frida.TransportError("lost"), frida.NotSupportedError("odd")])
def test_target_that_has_ended_is_not_said_to_go_on(error: Exception) -> None:
    with subprocess.Popen(["true"]) as target:
        # Not waited for: it is a zombie.
        wait_until(
            lambda: procfs.read_task_state(target.pid, target.pid) == "Z", "the end of true", 10
        )
        found = explain(error, target.pid)
    assert "ended while it was being attached to" in str(found)
    assert "ended while" in str(explain(error, target.pid))  # gone altogether


def test_target_that_was_gone_before_is_no_process() -> None:
    with subprocess.Popen(["true"]) as target:
        pass
    assert isinstance(explain(frida.ProcessNotFoundError("?"), target.pid), NoSuchProcessError)


def test_target_of_which_a_thread_was_not_found_is_there() -> None:
    error = explain(frida.ProcessNotFoundError("?"), os.getpid())
    assert isinstance(error, AttachFailedError)
    assert "continues" in error.hint


def test_target_that_goes_on_is_said_to() -> None:
    error = explain(frida.TransportError("lost"), os.getpid())
    assert "continues" in error.hint


SYNC_TIMEOUT = "unexpectedly timed out trying to sync up with agent"
LATE = [
    frida.TimedOutError("timed out"),
    frida.TimedOutError(SYNC_TIMEOUT),
    frida.ProcessNotRespondingError(SYNC_TIMEOUT),
]


@pytest.mark.parametrize("late", LATE)
def test_target_without_cpu_time_is_tried_again_and_then_explained(late: Exception) -> None:
    assert repeats(late, os.getpid()) == REPEATS
    error = explain(late, os.getpid())
    assert isinstance(error, AttachFailedError)
    assert "too slow" in error.message
    assert "continues" in error.hint
    assert "CPU" in error.hint
    assert "\n" not in error.message + error.hint


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (frida.TransportError("lost"), REPEATS),
        (frida.ProcessNotRespondingError("refused"), REPEATS),
        (frida.ProcessNotFoundError("a thread has ended"), REPEATS),
        (NoAnswerError("no answer"), REPEATS),
        (frida.PermissionDeniedError("no"), 0),
        (frida.NotSupportedError("odd"), 0),
        (AttachFailedError("no ring"), 0),
    ],
)
def test_only_what_may_pass_is_tried_again(error: Exception, expected: int) -> None:
    assert repeats(error, os.getpid()) == expected


def test_target_that_is_gone_is_not_tried_again() -> None:
    with subprocess.Popen(["true"]) as target:
        pass
    assert repeats(frida.ProcessNotFoundError("?"), target.pid) == 0


@pytest.mark.parametrize(
    ("number", "words"), [(errno.ECANCELED, "seccomp filter"), (errno.ENOMEM, "Cannot allocate")]
)
def test_agent_that_could_not_prepare(number: int, words: str) -> None:
    assert words in str(could_not_prepare(number, 1))
