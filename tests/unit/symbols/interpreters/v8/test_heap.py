"""Objects of V8's heap, read in a process: here it is our own."""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from flametap.linux.process_memory import MemoryReadError, ProcessMemory
from flametap.symbols.interpreters.v8.heap import Heap

PAGE = mmap.PAGESIZE
LIBC = ctypes.CDLL(None, use_errno=True)


@pytest.fixture
def end_of_memory() -> Iterator[int]:
    """The end of a page behind which nothing is mapped; it holds the numbers of its words."""
    LIBC.mmap.restype = ctypes.c_void_p
    LIBC.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
    access, flags = mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    start = LIBC.mmap(None, ctypes.c_size_t(2 * PAGE), access, flags, -1, ctypes.c_long(0))
    (ctypes.c_uint64 * (PAGE // 8)).from_address(start)[:] = list(range(PAGE // 8))
    assert LIBC.munmap(start + PAGE, PAGE) == 0
    yield start + PAGE
    assert LIBC.munmap(start, PAGE) == 0


def test_words_end_where_the_memory_does(end_of_memory: int) -> None:
    """The last object of a page is shorter than the longest of its kind: all its words count."""
    last = PAGE // 8 - 1
    with ProcessMemory("/proc/self") as memory:
        heap = Heap(memory, cast(Any, SimpleNamespace()))
        assert heap.words_at(end_of_memory - 24, 16) == (last - 2, last - 1, last)
        assert heap.words_at(end_of_memory - PAGE, 3) == (0, 1, 2)
        with pytest.raises(MemoryReadError):
            heap.words_at(end_of_memory, 16)
