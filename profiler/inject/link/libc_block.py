"""Find what libc notes of a thread: its number, its stack and its list of robust mutexes.

glibc keeps them in ``struct pthread``, to which the thread pointer points. The layout differs
between versions and is nowhere told, so it is found by what must be there. The agent reads these
notes of other threads (``agent/process/thread_stack.c``). glibc ``nptl/descr.h``,
get_robust_list(2), proc(5) (``startstack``); for musl ``musl_block``.
"""

from __future__ import annotations

import contextlib
import ctypes
import struct
from typing import NamedTuple

from ...linux import ptrace
from ...linux.syscalls import syscall_number
from ...linux.tasks import own_tids
from . import musl_block
from .target_memory import TargetMemory

SYS_GET_ROBUST_LIST = syscall_number("get_robust_list")
# struct pthread has about 2.3 KB, and less than 1 KB of it lies before what is looked for.
BLOCK_BYTES = 4096
STACK_BYTES_MAX = 1 << 40
PAGE_BYTES = 4096
START_OF_STACK = 26  # startstack, counted from the field behind the name


class BlockOffsets(NamedTuple):
    """Bytes from the thread pointer to each note; 0 where it is not known."""

    tid: int = 0
    # Start of the memory, its size, size of the guard: 8 bytes each; + 1: end of the stack, its
    # size, size of the guard.
    stack_notes: int = 0
    robust_list: int = 0


def find(memory: TargetMemory, excluded_tid: int = 0, thread_pointer: int = 0) -> BlockOffsets:
    """Find the notes in the blocks of a process's threads.

    Args:
        memory: of the process.
        excluded_tid: a thread that has no block: ours.
        thread_pointer: of a thread of the process, runtime_addr; 0 if unknown.
    """
    tid_offset, end_notes = musl_block.find(memory, thread_pointer) if thread_pointer else (0, 0)
    if tid_offset:
        return BlockOffsets(tid_offset, end_notes + 1 if end_notes else 0)
    found = BlockOffsets()
    start_of_stack = _start_of_stack(memory.pid)
    tids = {tid: own for own, tid in own_tids(memory.pid).items() if tid != excluded_tid}
    for tid, own_tid in sorted(tids.items()):
        head = _robust_list(tid)
        block = _block(memory, head)
        if not block:
            continue
        notes = memory.read(block, BLOCK_BYTES)
        if not found.tid:
            found = BlockOffsets(_tid_offset(notes, own_tid, head - block), 0, head - block)
        stack_notes = _stack_notes(notes, block, tid == memory.pid, start_of_stack)
        if stack_notes:
            return found._replace(stack_notes=stack_notes)
    return found


def _block(memory: TargetMemory, head: int) -> int:
    """Return the block that a list's head lies in, runtime_addr; 0 if it looks like none."""
    if head < BLOCK_BYTES:
        return 0
    # It may lie in the first page of its mapping, with nothing before that.
    words_before = memory.read(head - BLOCK_BYTES, BLOCK_BYTES)
    if len(words_before) < BLOCK_BYTES:
        words_before = memory.read(head - head % PAGE_BYTES, head % PAGE_BYTES)
    for back_bytes in range(32, len(words_before), 16):
        at = head - back_bytes
        word, own = struct.unpack_from("<Q8xQ", words_before, len(words_before) - back_bytes)
        if word == at and own == at and at % 16 == 0:
            return at
    return 0


def _tid_offset(notes: bytes, own_tid: int, robust_list: int) -> int:
    """The number that lies nearest before the list's head, as in all versions of glibc."""
    for at in range(robust_list - 4, 0, -4):
        if struct.unpack_from("<I", notes, at)[0] == own_tid:
            return at
    return 0


def _stack_notes(notes: bytes, block: int, is_main: bool, start_of_stack: int) -> int:
    words = struct.unpack(f"<{len(notes) // 8}Q", notes[: len(notes) // 8 * 8])
    for index in range(1, len(words) - 2):
        start, size_bytes, guard_bytes = words[index : index + 3]
        if is_main:
            # glibc notes nothing of the main thread's stack but where it ended at the start, a
            # static program's a word later.
            if (
                not start
                and start_of_stack - size_bytes in (0, 8)
                and size_bytes
                and not guard_bytes
            ):
                return 8 * index
            continue
        is_aligned = not (start | size_bytes | guard_bytes) % PAGE_BYTES
        if (
            is_aligned
            and guard_bytes < size_bytes < STACK_BYTES_MAX
            and (start + guard_bytes < block < start + size_bytes)
        ):
            return 8 * index
    return 0


def _start_of_stack(pid: int) -> int:
    with contextlib.suppress(OSError, ValueError, IndexError), open(f"/proc/{pid}/stat") as file:
        return int(file.read().rpartition(")")[2].split()[START_OF_STACK - 1])
    return 0


def _robust_list(tid: int) -> int:
    """Return where a thread's list begins, runtime_addr; 0 if it has none."""
    found = (ctypes.c_uint64 * 2)()
    at = ctypes.addressof(found)
    failed = ptrace.syscall(SYS_GET_ROBUST_LIST, tid, at, at + 8)
    return 0 if failed else int(found[0])
