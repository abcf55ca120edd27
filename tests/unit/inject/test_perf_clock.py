"""The clock that the host lends: an event of perf with a program that sends a signal."""

from __future__ import annotations

import ctypes
import fcntl
import os
import signal
import socket
import struct
import threading
import time
from collections.abc import Iterator

import pytest

from flametap.inject import file_lender, perf_clock
from flametap.linux import ptrace

ENABLE, PERIOD = 0x2400, 0x40082404  # PERF_EVENT_IOC_…
PERIOD_NS = 1_000_000
MEAN_EVENTS = 3.5
CPU_S = 0.3


def _instructions(text: bytes) -> list[tuple[int, int, int, int]]:
    return list(perf_clock.INSTRUCTION.iter_unpack(text))


def _descriptors() -> set[str]:
    return set(os.listdir("/proc/self/fd"))


def test_program_holds_signal_map_and_address() -> None:
    code = _instructions(perf_clock.program(5, signal.SIGURG, 0x7F00_1122_3344))
    assert code[0] == (perf_clock.LOAD_64_BITS, perf_clock.MAP_VALUE << 4 | 6, 0, 5)
    assert (perf_clock.MOVE, 1, 0, signal.SIGURG) in code
    high = code[[word[3] for word in code].index(0x1122_3344) + 1]
    assert high == (0, 0, 0, 0x7F00)


def test_all_jumps_of_the_program_lead_to_its_end_or_to_the_draw() -> None:
    code = _instructions(perf_clock.program(0, 1, 0))
    jumps = (perf_clock.JUMP, perf_clock.IF_ZERO, perf_clock.IF_NOT)
    ends = {code[at + 1 + word[2]] for at, word in enumerate(code) if word[0] in jumps}
    assert ends == {(perf_clock.CALL, 0, 0, perf_clock.RANDOM), (perf_clock.MOVE, 0, 0, 0)}
    assert code[-1][0] == perf_clock.EXIT


@pytest.mark.parametrize("allowed", [0, 1, 2])
def test_refusal_at_any_step_leaves_nothing_open(
    monkeypatch: pytest.MonkeyPatch, allowed: int
) -> None:
    calls = iter(range(3))

    def refuse(number: int, *arguments: int) -> int:
        return -1 if next(calls) >= allowed else os.open(os.devnull, os.O_RDONLY)

    before = _descriptors()
    monkeypatch.setattr(ptrace, "syscall", refuse)
    assert not perf_clock.is_permitted()
    assert _descriptors() == before


def test_event_that_takes_no_program_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    before = _descriptors()
    monkeypatch.setattr(
        ptrace, "syscall", lambda *arguments: os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    )
    assert perf_clock.open_clock(0, signal.SIGURG, 0) == -1
    assert _descriptors() == before


@pytest.fixture
def taken() -> Iterator[list[float]]:
    """The thread's CPU time at each SIGURG."""
    found: list[float] = []
    before = signal.signal(signal.SIGURG, lambda *_: found.append(time.thread_time()))
    yield found
    signal.signal(signal.SIGURG, before)


def _burn() -> None:
    end = time.thread_time() + CPU_S
    while time.thread_time() < end:
        pass


@pytest.mark.needs("perf-clock")
def test_signals_come_by_cpu_time_while_they_are_wanted(taken: list[float]) -> None:
    armed = ctypes.c_uint32(1)
    clock = perf_clock.open_clock(threading.get_native_id(), signal.SIGURG, ctypes.addressof(armed))
    try:
        assert clock >= 0
        _burn()
        assert taken == [], "the clock is on before it is switched on"
        fcntl.ioctl(clock, PERIOD, struct.pack("=Q", PERIOD_NS))
        fcntl.ioctl(clock, ENABLE, 0)
        time.sleep(0.2)
        assert taken == [], "sleep counts"
        _burn()
        expected = CPU_S * 1e9 / PERIOD_NS / MEAN_EVENTS
        # A host that takes the CPU away makes events fewer. Signals that meet each other are one.
        assert expected / 3 < len(taken) < 1.3 * expected
        armed.value = 0
        taken.clear()
        _burn()
        assert len(taken) <= 1, "not wanted"
        armed.value = 1
    finally:
        os.close(clock)
    taken.clear()
    _burn()
    assert len(taken) <= 1, "closed"


@pytest.fixture
def lender(monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    """The agent's end of a connection to a lender that lends files in place of clocks."""
    monkeypatch.setattr(
        perf_clock, "open_clock", lambda *arguments: os.open(os.devnull, os.O_RDONLY)
    )
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours:
        assert file_lender.start(os.getpid(), theirs.detach())
        ours.settimeout(10)
        yield ours


def _ask(lender: socket.socket, tid: int, signo: int) -> bool:
    request = struct.pack("=IIQ", tid, signo, 0x1000)
    lender.send(request)
    answer, descriptors, _, _ = socket.recv_fds(lender, 64, 1)
    assert answer == request
    for descriptor in descriptors:
        os.close(descriptor)
    return bool(descriptors)


def test_lender_lends_clocks_and_files(lender: socket.socket) -> None:
    assert _ask(lender, os.getpid(), signal.SIGURG)
    assert _ask(lender, os.getpid(), signal.SIGWINCH)
    assert _ask(lender, os.getpid(), 0)


def test_lender_lends_no_clock_that_might_do_harm(lender: socket.socket) -> None:
    assert not _ask(lender, os.getpid(), signal.SIGTERM)
    assert not _ask(lender, os.getppid(), signal.SIGURG), "another process's thread"
