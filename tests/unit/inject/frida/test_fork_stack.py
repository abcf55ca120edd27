"""Where functions of the C library are, from a file's own symbols."""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import os
import struct
import threading
from pathlib import Path

import pytest

from flametap.inject.frida import fork_stack
from flametap.linux import procfs
from flametap.linux.elf_headers import SHT_DYNSYM, ElfHeaderError


def functions(data: bytes) -> list[tuple[int, int]]:
    descriptor = os.memfd_create("library")
    try:
        os.write(descriptor, data)
        return fork_stack._functions(descriptor, fork_stack.FORK)
    finally:
        os.close(descriptor)


@pytest.fixture(scope="module")
def libc() -> bytes:
    mappings = procfs.read_mappings(os.getpid())
    return Path(next(m.path for m in mappings if fork_stack.LIBC.fullmatch(m.name))).read_bytes()


@pytest.mark.parametrize("name", ["fork", "malloc", "posix_memalign"])
def test_functions_are_where_the_loader_finds_them(name: str) -> None:
    names = fork_stack.FORK if name == "fork" else fork_stack.ALLOCATION
    addr = ctypes.cast(getattr(ctypes.CDLL(None), name), ctypes.c_void_p).value
    assert addr in [start for start, _ in fork_stack.find(os.getpid(), names)]


def test_locks_tell_who_is_in_the_dynamic_loader() -> None:
    """The callback of dl_iterate_phdr runs with one held."""
    callback = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p)
    seen = list[bool]()

    @callback
    def look(*_: object) -> int:
        seen.append(fork_stack.is_in_loader(threading.get_native_id(), pc=0))
        return 1

    thread = threading.Thread(target=lambda: ctypes.CDLL(None).dl_iterate_phdr(look, None))
    thread.start()
    thread.join()
    assert seen == [True]
    assert not fork_stack.is_in_loader(threading.get_native_id(), pc=0)


def test_owner_of_a_lock_is_who_the_process_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a container it has another number than for us."""
    lock = struct.pack("<5I", 1, 1, 7, 1, fork_stack.MUTEX_RECURSIVE)
    held = ctypes.create_string_buffer(lock)
    start = ctypes.addressof(held)
    loader = procfs.read_mappings(os.getpid())[0]._replace(
        path="/lib64/ld-linux-x86-64.so.2",
        permissions="rw-p",
        start=start,
        end=start + len(lock),
    )
    status = procfs.read_status(os.getpid())
    monkeypatch.setattr(procfs, "read_mappings", lambda _: [loader])
    for own_pid, is_in in ((7, True), (os.getpid(), False)):
        known = dataclasses.replace(status, own_pid=own_pid)
        monkeypatch.setattr(procfs, "read_status", lambda _, known=known: known)
        assert fork_stack.is_in_loader(os.getpid(), pc=0) == is_in


def test_no_library_has_no_functions(libc: bytes) -> None:
    for damaged in (b"", b"#!/bin/sh\n", libc[:64], libc[:5] + b"\x07" + libc[6:64]):
        with pytest.raises(ElfHeaderError):
            functions(damaged)


def test_damaged_section_headers_end_in_an_answer(libc: bytes) -> None:
    """A target's file may say anything, and the target stands still while it is read."""
    table, headers = int.from_bytes(libc[40:48], "little"), []
    for at in range(table, len(libc) - 63, 64):
        if int.from_bytes(libc[at + 4 : at + 8], "little") == SHT_DYNSYM:
            headers = list(range(at, at + 64, 8))
    assert headers
    descriptor = os.memfd_create("library")
    try:
        os.write(descriptor, libc)
        assert fork_stack._functions(descriptor, fork_stack.FORK)
        for place in (40, 58, 60, 62, *headers):
            for value in (0, 1, (1 << 63) - 1, (1 << 64) - 1):
                os.pwrite(descriptor, struct.pack("<Q", value), place)
                with contextlib.suppress(ElfHeaderError):
                    fork_stack._functions(descriptor, fork_stack.FORK)
                os.pwrite(descriptor, libc[place : place + 8], place)
    finally:
        os.close(descriptor)
