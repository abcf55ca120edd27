"""Reading memory: our own, which every process may."""

from __future__ import annotations

import ctypes
import mmap

import pytest

from flametap.linux.process_memory import MAX_READ_BYTES, MemoryReadError, ProcessMemory


def test_bytes_words_and_integers() -> None:
    data = ctypes.create_string_buffer(b"\xfe\xff\xff\xff\x01\x00\x00\x00abc")
    addr = ctypes.addressof(data)
    with ProcessMemory("/proc/self") as memory:
        assert memory.read(addr + 8, 3) == b"abc"
        assert memory.word(addr) == 0x1FFFFFFFE
        assert memory.integer(addr, 4, signed=True) == -2
        assert memory.integer(addr, 4) == 0xFFFFFFFE


def test_piece_that_ends_beyond_a_mapping() -> None:
    with mmap.mmap(-1, 2 * mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE) as pages:
        pages.write(b"x" * mmap.PAGESIZE)
        addr = ctypes.addressof(ctypes.c_char.from_buffer(pages))
        with ProcessMemory("/proc/self") as memory:
            assert memory.read(addr, 4) == b"xxxx"


@pytest.mark.parametrize(
    ("addr", "size"),
    [(0, 8), (8, MAX_READ_BYTES + 1), (-8, 8), (1 << 63, 8), ((1 << 63) - 4, 8), (16, -1)],
)
def test_what_cannot_be_read_is_an_error(addr: int, size: int) -> None:
    with ProcessMemory("/proc/self") as memory:
        with pytest.raises(MemoryReadError):
            memory.read(addr, size)
        with pytest.raises(MemoryReadError):
            memory.read_some(addr, size)


def test_no_such_process() -> None:
    with pytest.raises(OSError, match="No such"):
        ProcessMemory("/proc/0")
