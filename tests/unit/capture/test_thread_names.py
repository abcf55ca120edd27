"""Looking for names of threads while a recording runs."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from fakeproc import FakeProc
from flametap.capture import thread_names as module
from flametap.capture.thread_names import ThreadNames, default_names
from flametap.symbols.interpreters.found import FoundInterpreter
from flametap.symbols.interpreters.search import find_interpreters
from python_targets import PythonState, python_state
from running import wait_until

__all__ = ["python_state"]


class Receiver:
    """Takes names."""

    def __init__(self) -> None:
        self.names: dict[int, str] = {}
        self.defaults: frozenset[str] = frozenset()

    def set_names(self, names: Mapping[int, str], defaults: frozenset[str]) -> None:
        self.names |= names
        self.defaults = defaults


@pytest.mark.needs("attach")
def test_names_come_when_threads_do(
    python_state: PythonState, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_POLL_S", 0.01)
    receiver, found, threads = Receiver(), find_interpreters(python_state.pid), {1}
    names = ThreadNames(
        python_state.pid, lambda: found, lambda: frozenset(threads), receiver.set_names
    )
    names.start()
    wait_until(lambda: receiver.names == python_state.names, "the names")
    program = Path(f"/proc/{python_state.pid}/exe").resolve().name
    assert program in receiver.defaults
    receiver.names.clear()
    threads.add(2)
    wait_until(lambda: receiver.names == python_state.names, "the names for a new thread")
    names.close()


@pytest.mark.needs("attach")
def test_names_are_looked_for_at_the_end(
    python_state: PythonState, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_POLL_S", 30.0)
    monkeypatch.setattr(module, "_LAST_LOOK_S", 30.0)
    receiver, found = Receiver(), find_interpreters(python_state.pid)
    names = ThreadNames(python_state.pid, lambda: found, frozenset, receiver.set_names)
    names.start()
    names.close()
    assert receiver.names == python_state.names


def test_look_that_hangs_does_not_hold_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_LAST_LOOK_S", 0.05)
    monkeypatch.setattr(module, "_CLOSE_TIMEOUT_S", 0.05)
    goes_on = threading.Event()

    def interpreters() -> list[FoundInterpreter]:
        goes_on.wait(60)
        return []

    names = ThreadNames(os.getpid(), interpreters, frozenset, Receiver().set_names)
    names.start()
    began = time.monotonic()
    names.close()
    assert time.monotonic() - began < 30
    goes_on.set()


def test_default_names_are_those_that_a_program_begins_with(tmp_path: Path) -> None:
    fake = FakeProc(tmp_path / "proc")
    folder = fake.process(7, name="demo")
    (folder / "task/7").mkdir(parents=True, exist_ok=True)
    (folder / "task/7/comm").write_text("gunicorn: maste\n")
    (folder / "exe").unlink(missing_ok=True)
    (folder / "exe").symlink_to("/usr/bin/python3.12")
    (folder / "cmdline").write_bytes(b"/venv/bin/python\0/venv/bin/a-script-with-a-long-name\0-x\0")
    assert default_names(7, fake.proc) == {
        *("gunicorn: maste", "python3.12", "python", "a-script-with-a"),
    }
    assert default_names(8, fake.proc) == frozenset()
