"""What musl notes of its threads is found in a ring of blocks, and nothing in anything else."""

from __future__ import annotations

import os
import struct
from typing import cast

import pytest

from flametap.inject.link import libc_block, musl_block
from flametap.inject.link.target_memory import TargetMemory

MAIN, THREAD = 0x7F0000001000, 0x7F0000106B38
STACK_END, STACK_BYTES, GUARD_BYTES = 0x7F0000106A00, 0x20A00, 8192
TID_AT, STACK_AT = 48, 88


class Memory:
    """Blocks by their address, of our own process."""

    def __init__(self, **blocks: bytes) -> None:
        self.pid = os.getpid()
        self._blocks = {int(name[1:]): block for name, block in blocks.items()}

    def read(self, start: int, size_bytes: int) -> bytes:
        return self._blocks.get(start, b"")[:size_bytes]


def block(own: int, previous: int, following: int, *stack: int) -> bytes:
    """As in musl 1.2: self, dtv, prev, next, sysinfo, canary, tid …, stack, its size, guard."""
    words = struct.pack("<6QI", own, 1, previous, following, 0, 0x1234, os.getpid())
    notes = words.ljust(STACK_AT, b"\0") + struct.pack("<3Q", *stack)
    return notes.ljust(musl_block.BLOCK_BYTES, b"\0")


def memory(**blocks: bytes) -> TargetMemory:
    return cast(TargetMemory, Memory(**blocks))


def test_notes_of_another_thread_than_the_main_one() -> None:
    found = memory(
        **{
            f"_{MAIN}": block(MAIN, THREAD, THREAD, 0, 0, 0),
            f"_{THREAD}": block(THREAD, MAIN, MAIN, STACK_END, STACK_BYTES, GUARD_BYTES),
        }
    )
    assert musl_block.find(found, MAIN) == (TID_AT, STACK_AT)
    assert libc_block.find(found, 0, MAIN) == (TID_AT, STACK_AT + 1, 0)


def test_main_thread_alone_has_no_stack_noted() -> None:
    found = memory(**{f"_{MAIN}": block(MAIN, MAIN, MAIN, 0, 0, 0)})
    assert musl_block.find(found, MAIN) == (TID_AT, 0)


@pytest.mark.parametrize(
    ("previous", "following"), [(THREAD, THREAD), (MAIN, THREAD), (0, 0), (0, 1)]
)
def test_blocks_that_are_in_no_ring(previous: int, following: int) -> None:
    found = memory(**{f"_{MAIN}": block(MAIN, previous, following, 0, 0, 0)})
    assert musl_block.find(found, MAIN) == (0, 0)
