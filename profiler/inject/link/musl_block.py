"""Find what musl notes of a thread: its number and its stack.

musl's ``struct pthread`` begins with its own address, and the thread pointer points to it; since
1.1.22 (2019) it is followed by the two neighbours in a ring of all threads' blocks. Where the rest
lies differs between versions, so it is found by what must be there. musl ``pthread_impl.h``,
``pthread_create.c``; ``libc_block`` for glibc.
"""

from __future__ import annotations

import struct

from ...linux.tasks import own_tids
from .target_memory import TargetMemory

BLOCK_BYTES = 256
PREVIOUS_AT, NEXT_AT = 2, 3  # words
THREADS_MAX = 64
# The block lies above the stack, behind what the thread has of its own: __thread and pthread_key.
ABOVE_STACK_MAX = 1 << 20
STACK_BYTES_MAX = 1 << 40
PAGE_BYTES = 4096


def find(memory: TargetMemory, thread_pointer: int) -> tuple[int, int]:
    """Return the bytes from a thread pointer to the thread's number, and to three words: the end of
    its stack, its size, and the size of the guard. 0 where it is not known.

    Args:
        memory: of the process.
        thread_pointer: of any thread, runtime_addr.
    """
    tid_offset = 0
    tids = own_tids(memory.pid)
    block = thread_pointer
    for _ in range(THREADS_MAX):
        notes = _block(memory, block)
        if not notes:
            break
        tid_offset = tid_offset or _tid_offset(notes, set(tids))
        stack_notes = _stack_notes(notes, block)
        if tid_offset and stack_notes > tid_offset:
            return tid_offset, stack_notes
        block = struct.unpack_from("<Q", notes, 8 * NEXT_AT)[0]
        if block == thread_pointer:
            break
    return tid_offset, 0


def _block(memory: TargetMemory, block: int) -> bytes:
    """Return a block, if it is in a ring."""
    notes = memory.read(block, BLOCK_BYTES)
    if len(notes) < BLOCK_BYTES:
        return b""
    words = struct.unpack_from("<4Q", notes)
    after = memory.read(words[NEXT_AT], 8 * 4)
    if words[0] != block or len(after) < 8 * 4:
        return b""
    found = struct.unpack_from("<4Q", after)
    return notes if found[0] == words[NEXT_AT] and found[PREVIOUS_AT] == block else b""


def _tid_offset(notes: bytes, own_tids_: set[int]) -> int:
    """The first number behind the ring that a thread of the process has."""
    for at in range(8 * (NEXT_AT + 1), BLOCK_BYTES, 4):
        if struct.unpack_from("<I", notes, at)[0] in own_tids_:
            return at
    return 0


def _stack_notes(notes: bytes, block: int) -> int:
    words = struct.unpack(f"<{BLOCK_BYTES // 8}Q", notes)
    for index in range(NEXT_AT + 1, len(words) - 2):
        end, size_bytes, guard_bytes = words[index : index + 3]
        if (
            end <= block < end + ABOVE_STACK_MAX
            and PAGE_BYTES <= size_bytes < min(end, STACK_BYTES_MAX)
            and (end - size_bytes) % PAGE_BYTES == guard_bytes % PAGE_BYTES == 0
            and guard_bytes < STACK_BYTES_MAX
        ):
            return 8 * index
    return 0
