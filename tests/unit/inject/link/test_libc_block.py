"""What glibc notes of its threads, found in processes of many kinds."""

from __future__ import annotations

import contextlib
import os
import struct
from collections.abc import Callable

import pytest

from flametap.inject.link import libc_block
from flametap.inject.link.libc_block import BlockOffsets
from flametap.inject.link.target_memory import TargetMemory
from flametap.linux.tasks import read_call, tasks
from python_targets import PythonTarget
from running import Start

PARKED = ("parked", "long")

pytestmark = pytest.mark.needs("attach", "gcc")


def found_in(pid: int) -> BlockOffsets:
    """What is found in a process."""
    with contextlib.closing(TargetMemory(pid)) as memory:
        return libc_block.find(memory)


def check_all(pid: int, found: BlockOffsets) -> int:
    """The notes of all threads say the truth; returns how many there are besides the main one."""
    others = 0
    with contextlib.closing(TargetMemory(pid)) as memory:
        for tid in tasks(pid):
            block = libc_block._robust_list(tid) - found.robust_list
            assert memory.read(block + found.tid, 4) == struct.pack("<I", tid)
            if tid == pid:
                continue
            others += 1
            start, size_bytes, guard_bytes = struct.unpack(
                "<3Q", memory.read(block + found.stack_notes, 24)
            )
            call = read_call(pid, tid)
            assert call is None or start + guard_bytes < call.sp < block < start + size_bytes
    return others


@pytest.mark.parametrize("variant", ["", "static"])
def test_each_threads_number_and_stack_are_found(
    start: Start, require_capability: Callable[[str], str], variant: str
) -> None:
    if variant:
        require_capability("static-glibc")
    pid = start(*PARKED, variant=variant).pid
    assert check_all(pid, found_in(pid)) > 5


@pytest.mark.parametrize("variant", ["", "static"])
def test_single_thread_tells_the_same(
    start: Start, require_capability: Callable[[str], str], variant: str
) -> None:
    if variant:
        require_capability("static-glibc")
    alone = found_in(start("sleeper", variant=variant).pid)
    assert all(alone)
    assert alone == found_in(start(*PARKED, variant=variant).pid)


def test_pythons_of_all_versions(waiting_python: PythonTarget) -> None:
    assert check_all(waiting_python.pid, found_in(waiting_python.pid)) > 0


@pytest.mark.needs("musl-gcc")
@pytest.mark.parametrize("variant", ["musl", "musl-static"])
def test_another_libc_has_no_notes(start: Start, variant: str) -> None:
    assert found_in(start("sleeper", variant=variant).pid) == BlockOffsets()


def test_thread_that_is_ours_is_left_out(start: Start) -> None:
    pid = start("sleeper").pid
    with contextlib.closing(TargetMemory(pid)) as memory:
        assert libc_block.find(memory, pid) == BlockOffsets()


def test_process_that_has_gone_has_none() -> None:
    with contextlib.closing(TargetMemory(os.getpid())) as memory:
        memory.pid = 0x7FFF_FFFF
        assert libc_block.find(memory) == BlockOffsets()


def test_numbers_that_look_alike_are_not_taken() -> None:
    """The one nearest before the list's head is glibc's."""
    notes = bytearray(1024)
    struct.pack_into("<I", notes, 64, 77)
    struct.pack_into("<I", notes, 720, 77)
    assert libc_block._tid_offset(bytes(notes), 77, 736) == 720
    assert libc_block._tid_offset(bytes(notes), 78, 736) == 0


@pytest.mark.parametrize(
    "words",
    [
        (0x10000, 0x8000, 0x1000),  # the block is not in it
        (0x10000, 0x80008, 0x1000),
        (0x10000, 0x80000, 0x80000),
        (0x10000, 1 << 41, 0x1000),
        (0x7FF00, 0x80000, 0x1000),
    ],
)
def test_stack_that_cannot_be_is_not_taken(words: tuple[int, int, int]) -> None:
    block = 0x80000
    good = struct.pack("<4Q", 0, 0x10000, 0x80000, 0x1000)
    assert libc_block._stack_notes(good, block, False, 0) == 8
    assert libc_block._stack_notes(struct.pack("<4Q", 0, *words), block, False, 0) == 0
