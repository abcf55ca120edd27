"""The clocks that the host holds: events of perf with a program that sends a signal."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import socket
import struct
import threading
import time
from collections.abc import Iterator

import pytest

from flametap.inject.link import file_lender, held_clocks, perf_clock
from flametap.inject.link.admission import Admission
from flametap.inject.link.grants import Grants
from flametap.linux import ptrace
from flametap.linux.brief_stop import BriefStop
from running import wait_until

MEAN_NS = 2_000_000
CPU_S = 0.3
OF_CPU, OF_THREAD = perf_clock.OF_CPU, perf_clock.OF_THREAD
COOKIE = 0x1234_5678_9ABC_DEF1
PROCESS = perf_clock.Process(4, 0x7F00_1122_3344, 77)
TABLE = perf_clock.Table(0x7E00_5566_7788, COOKIE, signal.SIGURG)


def _instructions(text: bytes) -> list[tuple[int, int, int, int]]:
    return list(perf_clock.INSTRUCTION.iter_unpack(text))


def _values_64(code: list[tuple[int, int, int, int]]) -> set[int]:
    """The values of all instructions that load 64 bits."""
    return {
        low & 0xFFFFFFFF | (code[at + 1][3] & 0xFFFFFFFF) << 32
        for at, (operation, _, _, low) in enumerate(code)
        if operation == perf_clock.LOAD_64_BITS
    }


def _descriptors() -> set[str]:
    return set(os.listdir("/proc/self/fd"))


def test_program_holds_what_it_was_given() -> None:
    code = _instructions(perf_clock.program(OF_CPU, PROCESS, TABLE))
    assert (perf_clock.MOVE, 1, 0, signal.SIGURG) in code
    assert (perf_clock.IF_NOT, 7, 77) in [(word[0], word[1], word[3]) for word in code]
    entry = COOKIE ^ OF_CPU.number << 32
    assert _values_64(code) == {4, PROCESS.inode, TABLE.addr, entry}


def test_all_jumps_of_the_program_lead_to_its_end() -> None:
    code = _instructions(perf_clock.program(OF_THREAD, PROCESS, TABLE))
    jumps = (perf_clock.IF_NOT, perf_clock.IF_NOT_REGISTER)
    ends = {at + 1 + word[2] for at, word in enumerate(code) if word[0] in jumps}
    assert ends == {len(code) - 2}
    assert code[-1][0] == perf_clock.EXIT


@pytest.mark.parametrize("allowed", [0, 1])
def test_refusal_at_any_step_leaves_nothing_open(
    monkeypatch: pytest.MonkeyPatch, allowed: int
) -> None:
    calls = iter(range(2))

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
    assert perf_clock.open_clock(OF_CPU, 0, 0, MEAN_NS) == -1
    assert _descriptors() == before


@pytest.mark.parametrize("mean_ns", [0, 1, 10**6, 2**63])
def test_period_stays_within_bounds_whatever_is_asked_for(mean_ns: int) -> None:
    least, most = perf_clock.PERIOD_LEAST_NS, perf_clock.PERIOD_MOST_NS
    assert least <= perf_clock._period_ns(mean_ns) <= most


@pytest.fixture
def taken() -> Iterator[list[float]]:
    """The thread's CPU time at each SIGURG, while it keeps to one CPU."""
    found: list[float] = []
    before = signal.signal(signal.SIGURG, lambda *_: found.append(time.thread_time()))
    cpus = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(cpus)})
    yield found
    os.sched_setaffinity(0, cpus)
    signal.signal(signal.SIGURG, before)


def _burn() -> None:
    end = time.thread_time() + CPU_S
    while time.thread_time() < end:
        pass


@pytest.fixture(params=[OF_THREAD, OF_CPU], ids=["thread", "cpu"])
def ticking(request: pytest.FixtureRequest) -> Iterator[tuple[list[int], int]]:
    """A table that a clock for this thread reads, and the entry that wants its signal."""
    tid = threading.get_native_id()
    words = (ctypes.c_uint64 * perf_clock.TABLE_SIZE)()
    table = perf_clock.Table(ctypes.addressof(words), COOKIE, signal.SIGURG)
    loaded = perf_clock.load_program(request.param, perf_clock.Process.of(os.getpid()), table)
    number = min(os.sched_getaffinity(0)) if request.param is OF_CPU else tid
    clock = perf_clock.open_clock(request.param, number, loaded, MEAN_NS)
    assert loaded >= 0
    os.close(loaded)
    assert clock >= 0
    yield words, COOKIE ^ request.param.number << 32 ^ tid  # type: ignore[misc]
    os.close(clock)


@pytest.mark.needs("perf-clock")
def test_signals_come_by_cpu_time_while_they_are_wanted(
    taken: list[float], ticking: tuple[list[int], int]
) -> None:
    words, wanted = ticking
    tid = threading.get_native_id()
    place = tid % perf_clock.TABLE_SIZE
    _burn()
    assert taken == [], "nobody wants it"
    words[place] = wanted
    time.sleep(0.2)
    assert len(taken) <= 2, "sleep counts"
    taken.clear()
    _burn()
    expected = CPU_S * 1e9 / MEAN_NS
    # A host that takes the CPU away makes events fewer, or moves those of other threads here;
    # signals that meet each other are one. A sample's weight is CPU time, whatever their number.
    assert expected / 3 < len(taken) < 3 * expected
    for other in (0, 1, tid, COOKIE ^ tid, wanted + perf_clock.TABLE_SIZE, wanted ^ 3 << 32):
        words[place] = other
        taken.clear()
        _burn()
        assert len(taken) <= 1, f"{other:#x} is no entry of this thread for this clock"


@pytest.mark.needs("perf-clock")
def test_child_of_fork_gets_no_signal(taken: list[float], ticking: tuple[list[int], int]) -> None:
    words, wanted = ticking
    child = os.fork()
    if not child:
        own = os.getpid()
        words[own % perf_clock.TABLE_SIZE] = wanted ^ os.getppid() ^ own
        _burn()
        os._exit(len(taken) > 0)
    assert os.waitpid(child, 0)[1] == 0


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[tuple[perf_clock.Kind, int]]:
    """The clocks that were opened; each is a file instead."""
    clocks: list[tuple[perf_clock.Kind, int]] = []

    def open_clock(kind: perf_clock.Kind, number: int, *arguments: object) -> int:
        clocks.append((kind, number))
        return os.open(os.devnull, os.O_RDONLY)

    monkeypatch.setattr(
        perf_clock, "load_program", lambda *arguments: os.open(os.devnull, os.O_RDONLY)
    )
    monkeypatch.setattr(perf_clock, "open_clock", open_clock)
    monkeypatch.setattr(perf_clock, "draw_period", lambda *arguments: None)
    return clocks


def test_cpus_get_their_clock_once_and_lose_it_when_no_thread_uses_them(
    opened: list[tuple[perf_clock.Kind, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = _descriptors()
    with contextlib.closing(held_clocks.HeldClocks(os.getpid())) as clocks:
        for _ in range(3):
            assert clocks.want(threading.get_native_id(), TABLE, MEAN_NS, OF_CPU.number)
            clocks.look()
        assert len(opened) == len(set(opened)) >= 1
        clocks._moving.clear()
        monkeypatch.setattr(held_clocks, "UNUSED_S", -1.0)
        clocks._due_s = 0.0
        clocks.look()
        assert not clocks._of_cpus
    assert _descriptors() == before


def test_thread_changes_its_clock_and_loses_it_at_its_end(
    opened: list[tuple[perf_clock.Kind, int]],
) -> None:
    before = _descriptors()
    done = threading.Event()
    thread = threading.Thread(target=done.wait)
    thread.start()
    tid = thread.native_id
    assert tid is not None
    with contextlib.closing(held_clocks.HeldClocks(os.getpid())) as clocks:
        for kind in (OF_THREAD, OF_THREAD, OF_CPU, OF_THREAD):
            assert clocks.want(tid, TABLE, MEAN_NS, kind.number)
        assert opened[0] == opened[1] == opened[-1] == (OF_THREAD, tid)
        assert list(clocks._own) == [tid]
        assert not clocks._moving
        done.set()
        thread.join()
        wait_until(lambda: not os.path.exists(f"/proc/self/task/{tid}"), "its end")
        clocks._due_s = 0.0
        clocks.look()
        assert not clocks._own
    assert _descriptors() == before


@pytest.mark.parametrize("kind", [OF_THREAD, OF_CPU])
def test_nobody_else_gets_a_clock(
    opened: list[tuple[perf_clock.Kind, int]], kind: perf_clock.Kind
) -> None:
    with contextlib.closing(held_clocks.HeldClocks(os.getpid())) as clocks:
        assert not clocks.want(os.getppid(), TABLE, MEAN_NS, kind.number)
        assert not clocks.want(os.getpid(), TABLE, MEAN_NS, 3)
        assert not clocks.want(os.getpid(), TABLE._replace(addr=8), MEAN_NS, kind.number)
    assert opened == []


@pytest.fixture
def lender(opened: list[tuple[perf_clock.Kind, int]]) -> Iterator[socket.socket]:
    """The agent's end of a connection to a lender that holds files in place of clocks."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours:
        file_lender.start(
            os.getpid(), theirs, Grants(BriefStop(os.getpid()), lambda *_: None, lambda: False)
        )
        ours.settimeout(10)
        yield ours


def _ask(
    lender: socket.socket, tid: int, signo: int, kind: int = OF_CPU.number
) -> tuple[bool, int]:
    """Returns whether there is a clock, and how many descriptors came."""
    request = struct.pack("=IIQQQQ", tid, signo, 0x1000, COOKIE, MEAN_NS, kind)
    lender.send(request)
    answer, descriptors, _, _ = socket.recv_fds(lender, 64, 1)
    assert answer[:8] == request[:8]
    for descriptor in descriptors:
        os.close(descriptor)
    return answer == request, len(descriptors)


def test_lender_lends_files_and_keeps_clocks(
    lender: socket.socket, opened: list[tuple[perf_clock.Kind, int]]
) -> None:
    assert _ask(lender, os.getpid(), signal.SIGURG) == (True, 0)
    assert _ask(lender, os.getpid(), 0) == (True, 1)
    assert opened


def test_lender_holds_no_clock_that_might_do_harm(
    lender: socket.socket, opened: list[tuple[perf_clock.Kind, int]]
) -> None:
    assert _ask(lender, os.getpid(), signal.SIGTERM) == (False, 0)
    assert _ask(lender, os.getppid(), signal.SIGURG) == (False, 0), "another process's thread"
    assert opened == []


@pytest.mark.parametrize("signo", [signal.SIGURG, signal.SIGTERM])
def test_lender_changes_masks_for_our_signals_only(
    lender: socket.socket, monkeypatch: pytest.MonkeyPatch, signo: int
) -> None:
    asked: list[tuple[int, int]] = []

    def admit(_: Admission, tid: int, signo: int) -> bool:
        asked.append((tid, signo))
        return True

    monkeypatch.setattr(Admission, "admit", admit)
    is_ours = signo == signal.SIGURG
    assert _ask(lender, 4711, signo, kind=0) == (is_ours, 0)
    assert asked == ([(4711, signo)] if is_ours else [])
