"""The direct way into real processes, and out of them again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from flametap.errors import CannotAttachError, NoSuchProcessError
from flametap.inject.direct import injector as module
from flametap.inject.direct.injector import DirectInjector
from flametap.inject.link.control import Control
from flametap.inject.link.libc_block import BlockOffsets
from flametap.linux import procfs
from flametap.linux.tasks import tasks
from running import wait_until

pytestmark = pytest.mark.needs("attach", "gcc")

# Waits and computes by turns.
COUNTS = """
import time
print("ready", flush=True)
total = 0
for _ in range(400):
    time.sleep(0.005)
    total += sum(range(500))
print(total, flush=True)
"""


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["sleep", "600"]) as process:
        wait_until(lambda: procfs.read_task_state(process.pid, process.pid) == "S", "its sleep")
        yield process
        process.kill()


def surroundings(pid: int) -> tuple[str, list[str], frozenset[int]]:
    """What an entry must leave as it was."""
    folder = Path(f"/proc/{pid}")
    return (folder / "maps").read_text(), sorted(os.listdir(folder / "fd")), tasks(pid)


def vdso(pid: int) -> bytes:
    """Its bytes."""
    with open(f"/proc/{pid}/maps") as lines:
        start, end = next(line.split()[0].split("-") for line in lines if "[vdso]" in line)
    with open(f"/proc/{pid}/mem", "rb") as memory:
        memory.seek(int(start, 16))
        return memory.read(int(end, 16) - int(start, 16))


def enter_and_leave(pid: int) -> float:
    """Returns how long the one thread was stopped, in seconds."""
    injector = DirectInjector(pid)
    before = tasks(pid)
    entry = injector.enter(0)
    assert injector.memory is not None
    control = Control(entry, injector.memory)
    assert tasks(pid) - before == {entry.tid}
    assert Path(f"/proc/{pid}/task/{entry.tid}/comm").read_text() == "flametap\n"
    assert control.prepare(100, 0, 0, BlockOffsets()).error == 0
    assert control.leave(lambda: False)
    control.close()
    injector.leave()
    injector.close()
    return injector.stopped_s


def test_nothing_is_left(sleeper: subprocess.Popen[bytes]) -> None:
    before, code = surroundings(sleeper.pid), vdso(sleeper.pid)
    for _ in range(3):
        assert 0 < enter_and_leave(sleeper.pid) < 1
        assert surroundings(sleeper.pid) == before
        assert vdso(sleeper.pid) == code


def test_program_computes_on() -> None:
    command = [sys.executable, "-I", "-S", "-c", COUNTS]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        try:
            for _ in range(5):
                enter_and_leave(process.pid)
            assert process.communicate(timeout=120)[0] == b"%d\n" % (400 * sum(range(500)))
            assert process.returncode == 0
        finally:
            process.kill()


def test_thread_ends_by_itself_when_its_host_does_not_go_on(
    sleeper: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The host may die between any two steps; the next one uses the place again."""
    before = surroundings(sleeper.pid)

    class Died(Exception):
        pass

    def die(*_: object) -> int:
        raise Died

    monkeypatch.setattr(DirectInjector, "_wait_until_born", die)
    injector = DirectInjector(sleeper.pid)
    with pytest.raises(Died):
        injector.enter(0)
    injector.close()
    monkeypatch.undo()
    wait_until(lambda: surroundings(sleeper.pid) == before, "its end")
    assert enter_and_leave(sleeper.pid) > 0
    assert surroundings(sleeper.pid) == before


def test_process_that_stands_still_is_not_entered(
    sleeper: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    before, code = surroundings(sleeper.pid), vdso(sleeper.pid)
    sleeper.send_signal(signal.SIGSTOP)
    wait_until(lambda: procfs.read_task_state(sleeper.pid, sleeper.pid) == "T", "the stop")
    monkeypatch.setattr(module, "TRIES_LIMIT_S", 0.3)
    injector = DirectInjector(sleeper.pid)
    with pytest.raises(CannotAttachError, match="could be stopped without harm") as refused:
        injector.enter(0)
    assert refused.value.hint
    injector.leave()
    injector.close()
    sleeper.send_signal(signal.SIGCONT)
    wait_until(lambda: procfs.read_task_state(sleeper.pid, sleeper.pid) == "S", "its sleep")
    assert surroundings(sleeper.pid) == before
    assert vdso(sleeper.pid) == code


def test_entry_that_is_given_up_ends_at_once(sleeper: subprocess.Popen[bytes]) -> None:
    sleeper.send_signal(signal.SIGSTOP)
    injector = DirectInjector(sleeper.pid)
    threading.Timer(0.1, injector.give_up).start()
    with pytest.raises(CannotAttachError):
        injector.enter(0)
    injector.close()
    sleeper.send_signal(signal.SIGCONT)


def test_process_that_ends_meanwhile_is_told_as_such(
    sleeper: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    def end(*_: object) -> None:
        sleeper.kill()
        sleeper.wait()

    monkeypatch.setattr(DirectInjector, "_divert", end)
    injector = DirectInjector(sleeper.pid)
    with pytest.raises(NoSuchProcessError):
        injector.enter(0)
    injector.leave()
    injector.close()
