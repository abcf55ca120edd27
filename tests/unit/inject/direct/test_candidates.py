"""Which thread is stopped, and which must not be."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from flametap.inject.direct import candidates as module
from flametap.inject.direct.candidates import LOOKED_AT_MAX, Candidates
from flametap.linux import eintr_restart, procfs
from flametap.linux.tasks import Call, read_call
from running import wait_until

pytestmark = pytest.mark.needs("attach")

ENDLESS = "import select; print('ready', flush=True); select.epoll().poll()"
LONG = "import select; print('ready', flush=True); select.epoll().poll(3600)"
ON_SOCKET = """
import os, socket
one, other = socket.socketpair()
one.setsockopt(socket.SOL_SOCKET, socket.{option}, (3600).to_bytes(8, "little") + bytes(8))
print('ready', flush=True)
{call}
"""
BRIEF = """
import select
print('ready', flush=True)
while True:
    select.epoll().poll(0.02)
"""
BUSY = """
print('ready', flush=True)
while True:
    pass
"""
# A second thread, with a filter that allows everything; the main thread has none.
FILTERED = """
import ctypes, struct, threading, time
libc = ctypes.CDLL(None)
def body():
    allow = ctypes.create_string_buffer(struct.pack("<HBBI", 6, 0, 0, 0x7fff0000))
    program = struct.pack("<H6xQ", 1, ctypes.addressof(allow))
    assert libc.prctl(38, 1, 0, 0, 0) == 0  # PR_SET_NO_NEW_PRIVS
    assert libc.prctl(22, 2, ctypes.c_char_p(program), 0, 0) == 0  # PR_SET_SECCOMP
    print("ready", flush=True)
    time.sleep(3600)
threading.Thread(target=body).start()
time.sleep(3600)
"""


@contextmanager
def running(code: str) -> Iterator[subprocess.Popen[bytes]]:
    """A Python that runs this."""
    command = [sys.executable, "-I", "-S", "-c", code]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == b"ready\n"
            yield process
        finally:
            process.kill()


def tids(candidates: Candidates) -> list[int]:
    return [each.tid for each in candidates.choose()]


def wait_for(pid: int, state: str) -> None:
    wait_until(lambda: procfs.read_task_state(pid, pid) == state, f"state {state}")


def test_wait_without_an_end_may_be_stopped() -> None:
    with running(ENDLESS) as process:
        wait_for(process.pid, "S")
        assert tids(Candidates(process.pid)) == [process.pid]


def test_wait_for_a_time_is_left_alone_at_first_and_gets_the_rest_of_it_then() -> None:
    with running(LONG) as process:
        wait_for(process.pid, "S")
        candidates = Candidates(process.pid)
        for _ in range(3):
            assert list(candidates.choose()) == []
        time.sleep(module.PATIENCE_S)
        (found,) = candidates.choose()
        assert found.tid == process.pid
        assert 3_590_000 < found.left_ms <= 3_600_000 - 1000 * module.PATIENCE_S + 20


@pytest.mark.parametrize("option", ["SO_RCVTIMEO", "SO_SNDTIMEO"])
@pytest.mark.parametrize("call", ["os.read(one.fileno(), 1)", "one.recv(1)"])
def test_wait_on_a_socket_has_an_end_where_the_socket_says_so(option: str, call: str) -> None:
    with running(ON_SOCKET.format(option=option, call=call)) as process:
        wait_for(process.pid, "S")
        may_end = option == "SO_RCVTIMEO"
        assert tids(Candidates(process.pid)) == [process.pid] * (not may_end)


def test_wait_that_has_just_begun_may_be_stopped() -> None:
    with running(BRIEF) as process:
        candidates = Candidates(process.pid)
        found = itertools.chain.from_iterable(candidates.choose() for _ in itertools.count())
        assert next(found).tid == process.pid


def test_thread_that_runs_is_the_last_choice() -> None:
    with running(BUSY) as process:
        wait_for(process.pid, "R")
        assert tids(Candidates(process.pid)) == [process.pid]


def test_thread_that_stands_still_is_none() -> None:
    with running(ENDLESS) as process:
        process.send_signal(signal.SIGSTOP)
        wait_for(process.pid, "T")
        assert list(Candidates(process.pid).choose()) == []
        process.send_signal(signal.SIGCONT)


def test_thread_with_other_filters_than_the_main_thread_is_none() -> None:
    """Ours would inherit them."""
    with running(FILTERED) as process:
        wait_for(process.pid, "S")
        wait_until(
            lambda: tids(Candidates(process.pid)) == [process.pid],
            "the main one",
        )
        assert len(os.listdir(f"/proc/{process.pid}/task")) == 2


def test_thread_of_the_kernel_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "is_of_kernel", lambda pid, tid: True)
    assert list(Candidates(os.getpid()).choose()) == []


def test_process_that_has_gone_has_none() -> None:
    assert list(Candidates(0x7FFF_FFFF).choose()) == []


def test_those_that_wait_come_before_those_that_run(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = {1: (b"R", None), 2: (b"S", Call(230)), 3: (b"D", Call(0)), 4: None, 5: (b"S", None)}
    monkeypatch.setattr(module, "tasks", lambda pid: frozenset(looks))
    monkeypatch.setattr(Candidates, "_look", lambda self, tid: looks[tid])
    assert tids(Candidates(1)) == [2, 1]


def test_each_of_many_has_its_turn_and_the_main_thread_each_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pid, count = 1, 3 * LOOKED_AT_MAX + 7
    seen: list[list[int]] = []

    def look(self: Candidates, tid: int) -> None:
        seen[-1].append(tid)

    monkeypatch.setattr(module, "tasks", lambda pid: frozenset(range(1, count + 1)))
    monkeypatch.setattr(Candidates, "_look", look)
    candidates = Candidates(pid)
    for _ in range(4):
        seen.append([])
        assert list(candidates.choose()) == []
    assert all(looks[0] == pid and len(looks) <= LOOKED_AT_MAX + 1 for looks in seen)
    assert {tid for looks in seen for tid in looks} == set(range(1, count + 1))


def test_waits_are_seen_as_the_kernel_has_them() -> None:
    with running(LONG) as process:
        wait_for(process.pid, "S")
        call = read_call(process.pid, process.pid)
        assert call is not None
        assert eintr_restart.may_end(call)
