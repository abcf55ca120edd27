"""What is asked of our thread in a target, and what a target may make of the memory for it."""

from __future__ import annotations

import fcntl
import mmap
import os
import re
import struct
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import cast

import pytest

from flametap.errors import AttachFailedError
from flametap.inject.link import control as control_module
from flametap.inject.link import ring_file
from flametap.inject.link.control import Control
from flametap.inject.link.injector import Entry
from flametap.inject.link.libc_block import BlockOffsets
from flametap.inject.link.target_memory import TargetMemory
from flametap.linux import procfs
from flametap.wire import abi as wire_abi
from flametap.wire import control_abi as abi

AGENT = Path(__file__).resolve().parents[4] / "agent"
BOOT_ADDR, GATE_ADDR = 0x1000, 0x2000
OFFSETS = BlockOffsets(720, 1680, 736)


class FakeMemory:
    """Has nothing but ``boot``, and takes what is written."""

    def __init__(self, state: int, error: int, fd: int) -> None:
        self.pid = os.getpid()
        self.boot = abi.BOOT.pack(1, state, error, fd, 7, 1, 0, 0, 0, GATE_ADDR, *(0,) * 6)
        self.written: dict[int, bytes] = {}

    def read(self, start: int, size_bytes: int) -> bytes:
        assert start == BOOT_ADDR
        return self.boot[:size_bytes]

    def write(self, start: int, what: bytes) -> None:
        self.written[start] = what


class FakeThread:
    """Our thread, played by one of ours: it answers each request once."""

    def __init__(self) -> None:
        self.fd = os.memfd_create("flametap-control", os.MFD_ALLOW_SEALING | os.MFD_CLOEXEC)
        os.ftruncate(self.fd, abi.CONTROL_BYTES)
        fcntl.fcntl(self.fd, fcntl.F_ADD_SEALS, ring_file.SEALS)
        self.memory = mmap.mmap(self.fd, abi.CONTROL_BYTES)
        self.result = 0
        self.asked: list[tuple[int, tuple[int, ...], int]] = []
        self.is_deaf = False
        self.answer: Callable[[], None] = lambda: None
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        while not self._is_over.wait(0.001):
            request, answered, call = struct.unpack_from("<3I", self.memory, 0)
            if request == answered or self.is_deaf:
                continue
            arguments = struct.unpack_from("<3Q", self.memory, abi.AT_ARGUMENTS)
            (count,) = struct.unpack_from("<I", self.memory, abi.AT_COUNT)
            self.asked.append((call, arguments, count))
            self.answer()
            struct.pack_into("<i", self.memory, abi.AT_RESULT, self.result)
            struct.pack_into("<I", self.memory, 4, request)

    def words(self, count: int) -> tuple[int, ...]:
        """The first of those that come with a request."""
        return struct.unpack_from(f"<{count}Q", self.memory, abi.AT_WORDS)

    def close(self) -> None:
        """End the thread."""
        self._is_over.set()
        self._thread.join()
        self.memory.close()
        os.close(self.fd)


@pytest.fixture
def thread() -> Iterator[FakeThread]:
    made = FakeThread()
    yield made
    made.close()


def control_of(state: int, error: int, fd: int) -> tuple[Control, FakeMemory]:
    """Our side of a thread of this very process."""
    memory = FakeMemory(state, error, fd)
    entry = Entry(threading.get_native_id(), BOOT_ADDR)
    return Control(entry, cast(TargetMemory, memory)), memory


@pytest.fixture
def control(thread: FakeThread) -> Iterator[Control]:
    made, _ = control_of(abi.BOOT_READY, 0, thread.fd)
    yield made
    made.close()
    made.close()


def test_preparing_hands_over_what_is_known_and_returns_what_is_said(
    control: Control, thread: FakeThread
) -> None:
    def answer() -> None:
        abi.PREPARED.pack_into(thread.memory, abi.AT_PREPARED, 4, -1)

    thread.answer = answer
    assert control.prepare(250, 2, 3, OFFSETS) == (0, 4, -1)
    assert thread.asked == [(abi.PREPARE, (250, 2, 3), 0)]
    assert struct.unpack_from("<3Q", thread.memory, abi.AT_OFFSETS) == OFFSETS
    thread.result = -125
    assert control.prepare(250, 2, 3, OFFSETS).error == 125


def test_probes_are_those_that_fit(control: Control, thread: FakeThread) -> None:
    probes = [(tid, 0x7000, 0x6000, -1) for tid in range(1, 400)]
    assert control.start(probes, lambda: False) == 0
    assert thread.asked[0][::2] == (abi.START, abi.CONTROL_PROBES)
    assert thread.words(5) == (1, 0x7000, 0x6000, (1 << 64) - 1, 2)
    thread.result = -12
    assert control.start([], lambda: False) == 12
    assert thread.asked[1][2] == 0


def test_recipes_are_those_that_fit(control: Control, thread: FakeThread) -> None:
    recipe = list(range(wire_abi.RECIPE_WORDS))
    control.set_recipes([recipe, recipe])
    assert thread.asked[-1][::2] == (abi.RECIPES, 2)
    assert thread.words(2 * len(recipe)) == (*recipe, *recipe)
    control.set_recipes([recipe] * 500)
    assert thread.asked[-1][2] == abi.CONTROL_WORDS // len(recipe)
    control.set_recipes([])
    assert thread.asked[-1][2] == 0


def test_other_requests_have_their_argument(control: Control, thread: FakeThread) -> None:
    control.set_paused(True)
    control.set_rate(99)
    thread.result = 3
    assert control.stop(lambda: False) == 3
    assert [(call, first) for call, (first, *_), _ in thread.asked] == [
        (abi.PAUSE, 1),
        (abi.RATE, 99),
        (abi.STOP, 99),
    ]


def test_requests_are_counted_beyond_the_end_of_the_numbers(
    control: Control, thread: FakeThread
) -> None:
    struct.pack_into("<2I", thread.memory, 0, 0xFFFF_FFFF, 0xFFFF_FFFF)
    control.set_rate(1)
    control.set_rate(2)
    assert struct.unpack_from("<2I", thread.memory, 0) == (1, 1)


def test_wait_for_an_answer_ends_when_there_is_no_hope(
    control: Control, thread: FakeThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    thread.is_deaf = True
    with pytest.raises(AttachFailedError, match="does not answer"):
        control.stop(lambda: True)
    for limit in ("ANSWER_LIMIT_S", "BUSY_LIMIT_S"):
        monkeypatch.setattr(control_module, limit, 0.05)
    with pytest.raises(AttachFailedError, match="does not answer"):
        control.set_rate(1)
    assert not control.leave(lambda: True)
    assert not control.leave(lambda: False, 0.01)


@pytest.mark.parametrize(("state", "is_patient"), [("R", True), ("D", True), ("S", False)])
def test_thread_that_works_or_waits_for_a_cpu_has_more_time(
    control: Control,
    thread: FakeThread,
    monkeypatch: pytest.MonkeyPatch,
    state: str,
    is_patient: bool,
) -> None:
    looks = []

    def answer_late(_: int, __: int) -> str:
        looks.append(state)
        thread.is_deaf = len(looks) < 4
        return state

    thread.is_deaf = True
    monkeypatch.setattr(procfs, "read_task_state", answer_late)
    monkeypatch.setattr(control_module, "ANSWER_LIMIT_S", 2 * control_module.LOOK_INTERVAL_S)
    if is_patient:
        control.set_rate(1)
        return
    with pytest.raises(AttachFailedError, match="does not answer"):
        control.set_rate(1)


def test_thread_that_has_ended_answers_nothing(control: Control, thread: FakeThread) -> None:
    thread.is_deaf = True
    control._task = "/proc/self/task/0"
    assert not control.is_alive()
    with pytest.raises(AttachFailedError, match="has ended"):
        control.set_rate(1)
    assert control.leave(lambda: False)


@pytest.mark.parametrize(
    ("state", "error", "words"),
    [(abi.BOOT_FAILED, 24, "could not begin: Too many open files"), (abi.BOOT_NOTHING, 0, "begin")],
)
def test_thread_that_did_not_begin_says_why(
    state: int, error: int, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(control_module, "READY_LIMIT_S", 0.01)
    with pytest.raises(AttachFailedError, match=words):
        control_of(state, error, -1)


def test_another_file_in_its_place_is_refused() -> None:
    with open(os.devnull) as file, pytest.raises(AttachFailedError, match="another file"):
        control_of(abi.BOOT_READY, 0, file.fileno())


def test_gate_is_that_of_the_agent(thread: FakeThread) -> None:
    text = (AGENT / "sampling" / "disposition.c").read_text("utf-8")

    def code(name: str) -> bytes:
        found = re.search(rf"static const u8 {name}\[\d+\] = \{{(.*?)\}};", text)
        assert found
        return bytes(int(byte, 0) for byte in found[1].split(","))

    place = re.search(r"#define GATE_RESTORER (\d+)", text)
    assert place
    control, memory = control_of(abi.BOOT_READY, 0, thread.fd)
    control.write_gate(cast(TargetMemory, memory))
    control.close()
    assert memory.written == {
        GATE_ADDR: code("gate_code"),
        GATE_ADDR + int(place[1]): code("gate_restorer"),
    }
