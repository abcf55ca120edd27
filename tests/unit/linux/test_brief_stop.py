"""Threads that are stopped for a moment, and those that cannot be."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from flametap.linux import brief_stop, procfs, ptrace
from flametap.linux.brief_stop import BriefStop, TracingThread
from running import wait_until

# It waits in vfork(2) until its child has opened the FIFO, in uninterruptible sleep.
VFORKS = """
import os, sys
os.posix_spawn(
    "/bin/true", ["true"], {}, file_actions=[(os.POSIX_SPAWN_OPEN, 0, sys.argv[1], os.O_RDONLY, 0)]
)
print("went on", flush=True)
"""

pytestmark = pytest.mark.needs("attach")


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["sleep", "600"]) as process:
        wait_until(lambda: state(process.pid) == "S", "its sleep")
        yield process
        process.kill()


def state(pid: int) -> str:
    """The state of a process's main thread."""
    return procfs.read_task_state(pid, pid)


def is_traced(pid: int) -> bool:
    """Whether somebody traces it."""
    return "TracerPid:\t0\n" not in Path(f"/proc/{pid}/status").read_text()


def tracers() -> int:
    """How many threads of ours trace, or may."""
    return sum(thread.name == "flametap-tracer" for thread in threading.enumerate())


def test_thread_is_stopped_while_it_is_looked_at(sleeper: subprocess.Popen[bytes]) -> None:
    stop = BriefStop(sleeper.pid)
    seen: list[tuple[str, bool]] = []
    for _ in range(3):
        stop.look(sleeper.pid, lambda: seen.append((state(sleeper.pid), is_traced(sleeper.pid))))
    stop.end()
    assert seen == [("t", True)] * 3
    assert not is_traced(sleeper.pid)
    wait_until(lambda: state(sleeper.pid) == "S", "its sleep")


def test_error_while_it_is_looked_at_lets_it_go(sleeper: subprocess.Popen[bytes]) -> None:
    stop = BriefStop(sleeper.pid)

    def fail() -> None:
        raise OSError

    stop.look(sleeper.pid, fail)
    wait_until(lambda: not is_traced(sleeper.pid), "its release")
    seen: list[str] = []
    stop.look(sleeper.pid, lambda: seen.append("again"))
    stop.end()
    assert seen == ["again"]


def test_thread_of_a_stopped_process_is_not_looked_at(sleeper: subprocess.Popen[bytes]) -> None:
    sleeper.send_signal(signal.SIGSTOP)
    wait_until(lambda: state(sleeper.pid) == "T", "the stop")
    stop = BriefStop(sleeper.pid)
    seen: list[str] = []
    stop.look(sleeper.pid, lambda: seen.append("looked"))
    stop.end()
    assert seen == []
    wait_until(lambda: not is_traced(sleeper.pid), "its release")
    wait_until(lambda: state(sleeper.pid) == "T", "the stop to go on")
    sleeper.send_signal(signal.SIGCONT)
    wait_until(lambda: state(sleeper.pid) == "S", "that it goes on")


def test_thread_that_does_not_stop_in_time_is_let_go(tmp_path: Path) -> None:
    """The request would stop it whenever it comes back."""
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    command = [sys.executable, "-I", "-S", "-c", VFORKS, str(fifo)]
    stop, seen = BriefStop(0), list[str]()
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        try:
            wait_until(lambda: state(process.pid) == "D", "its wait for its child")
            stop.look(process.pid, lambda: seen.append("looked"))
            wait_until(lambda: not is_traced(process.pid), "its release")
            wait_until(lambda: tracers() == 0, "the end of the thread that traced")
            assert state(process.pid) == "D"
        finally:
            fifo.open("w").close()
        assert process.communicate(timeout=60)[0] == b"went on\n"
    assert seen == []


def test_process_that_has_gone_is_no_error() -> None:
    stop = BriefStop(0x7FFF_FFFF)
    stop.look(0x7FFF_FFFF, lambda: pytest.fail("nobody is there"))
    stop.end()


def test_nobody_is_traced_twice(sleeper: subprocess.Popen[bytes]) -> None:
    """Another's tracee is left alone."""
    other = BriefStop(sleeper.pid)
    seen: list[str] = []

    def look_again() -> None:
        inner = BriefStop(sleeper.pid)
        inner.look(sleeper.pid, lambda: seen.append("inner"))
        inner.end()
        seen.append("outer")

    other.look(sleeper.pid, look_again)
    other.end()
    assert seen == ["outer"]


def test_call_that_says_so_ends_the_tracing_thread() -> None:
    tracing = TracingThread()
    numbers: list[int] = []

    def call(goes_on: bool) -> bool:
        numbers.append(threading.get_native_id())
        return goes_on

    for goes_on in (True, True, False, True):
        tracing.run(lambda goes_on=goes_on: call(goes_on))  # type: ignore[misc]
    tracing.end()
    tracing.end()
    assert numbers[0] == numbers[1] == numbers[2] != numbers[3]
    wait_until(lambda: tracers() == 0, "the end of both")


def test_limit_is_kept(monkeypatch: pytest.MonkeyPatch, sleeper: subprocess.Popen[bytes]) -> None:
    limits: list[float] = []

    def never(tid: int, limit_s: float, interval_s: float) -> None:
        limits.append(limit_s)

    monkeypatch.setattr(ptrace, "next_stop", never)
    BriefStop(sleeper.pid).look(sleeper.pid, lambda: pytest.fail("it has not stopped"))
    assert limits == [brief_stop.STOP_LIMIT_S]
    wait_until(lambda: not is_traced(sleeper.pid), "its release")
