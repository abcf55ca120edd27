"""System calls made by another process for us, with a child that sleeps."""

from __future__ import annotations

import mmap
import subprocess
import sys
from collections.abc import Iterator

import pytest

from flametap.linux import remote_syscall
from flametap.linux.maps import read_maps

# The child maps memory, says where, and waits for its standard input to end.
CHILD = """
import ctypes, mmap, os, sys
memory = mmap.mmap(-1, 4 * mmap.PAGESIZE)
print(ctypes.addressof(ctypes.c_char.from_buffer(memory)), flush=True)
sys.stdin.read()
print("still here", flush=True)
os._exit(0)  # the interpreter would unmap it once more
"""
SIZE_BYTES = 4 * mmap.PAGESIZE

pytestmark = pytest.mark.needs("attach")


@pytest.fixture
def child() -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    command = [sys.executable, "-I", "-S", "-c", CHILD]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        yield process, int(process.stdout.readline())
        process.kill()


def is_mapped(pid: int, addr: int) -> bool:
    return any(mapping.start <= addr < mapping.end for mapping in read_maps(f"/proc/{pid}"))


def test_memory_is_unmapped_and_the_process_goes_on(
    child: tuple[subprocess.Popen[bytes], int],
) -> None:
    process, start = child
    assert is_mapped(process.pid, start)
    assert remote_syscall.stop_and_unmap(process.pid, start, SIZE_BYTES)
    assert not is_mapped(process.pid, start)
    output, _ = process.communicate(timeout=60)
    assert output == b"still here\n"


def test_nothing_happens_to_what_is_no_process_of_that_number() -> None:
    assert not remote_syscall.stop_and_unmap(0x7FFF_FFFF, 0, SIZE_BYTES)
