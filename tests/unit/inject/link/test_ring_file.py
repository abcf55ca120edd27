"""What the target hands out as our memory: only a sealed memfd of the right size is taken."""

from __future__ import annotations

import fcntl
import mmap
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from flametap.errors import AttachFailedError
from flametap.inject.link import ring_file
from own_tables import own_table


def memfd(*, size_bytes: int = ring_file.FILE_BYTES, seals: int = ring_file.SEALS) -> int:
    fd = os.memfd_create("flametap-ring", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(fd, size_bytes)
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, seals)
    return fd


def read_only() -> int:
    return os.open(f"/proc/self/fd/{memfd()}", os.O_RDONLY | os.O_CLOEXEC)


FOREIGN: dict[str, tuple[Callable[[], int], str]] = {
    "device": (lambda: os.open("/dev/null", os.O_RDWR), "no memfd"),
    "pipe": (lambda: os.pipe()[1], "no memfd"),
    "folder": (lambda: os.open("/", os.O_RDONLY), "no memfd"),
    "path": (lambda: os.open("/dev/null", os.O_PATH), "no memfd"),
    "file": (lambda: os.open(__file__, os.O_RDONLY), "no memfd"),
    "unsealed": (lambda: memfd(seals=0), "not sealed"),
    "half sealed": (lambda: memfd(seals=fcntl.F_SEAL_SHRINK), "not sealed"),
    "too long": (lambda: memfd(size_bytes=1 << 36), "68719476736 bytes"),
    "too short": (lambda: memfd(size_bytes=4096), "4096 bytes"),
}


def taken(fd: int, size_bytes: int = ring_file.FILE_BYTES) -> int:
    """What we get of a descriptor in our own table."""
    return ring_file.open_own("/proc/self", fd, size_bytes)


@pytest.mark.parametrize("size_bytes", [ring_file.FILE_BYTES, 4096])
def test_file_is_taken_and_mapped(size_bytes: int) -> None:
    theirs = memfd(size_bytes=size_bytes)
    ours = taken(theirs, size_bytes)
    with mmap.mmap(ours, size_bytes) as mapping:
        mapping[:5] = b"hello"
    assert os.pread(theirs, 5, 0) == b"hello"
    assert not os.get_inheritable(ours)
    os.close(ours)
    os.close(theirs)


def test_ring_is_mapped_as_a_whole() -> None:
    theirs = memfd()
    with ring_file.mapped(theirs) as mapping:
        assert len(mapping) == ring_file.FILE_BYTES
    os.close(theirs)


def test_descriptor_of_a_thread_with_its_own_table_is_found() -> None:
    with own_table(lambda: memfd(size_bytes=4096)) as (tid, theirs):
        os.close(ring_file.open_own(f"/proc/self/task/{tid}", theirs, 4096))
        with pytest.raises(AttachFailedError):
            taken(theirs, 4096)


def test_file_that_can_only_be_read_is_opened_anew() -> None:
    theirs = read_only()
    ours = taken(theirs)
    os.pwrite(ours, b"x", 0)
    os.close(ours)
    os.close(theirs)


@pytest.mark.parametrize("name", FOREIGN)
def test_any_other_file_is_refused_and_nothing_stays_open(name: str) -> None:
    make, why = FOREIGN[name]
    theirs = make()
    before = os.listdir("/proc/self/fd")
    with pytest.raises(AttachFailedError, match=f"another file .*{why}") as raised:
        taken(theirs)
    assert raised.value.hint
    assert os.listdir("/proc/self/fd") == before
    os.close(theirs)


def test_nothing_but_a_memfd_is_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """To open a FIFO, or a device, can block or do something."""
    opened: list[int] = []
    real = os.open

    def watched(path: str, flags: int, *rest: int) -> int:
        opened.append(flags)
        return real(path, flags, *rest)

    os.mkfifo(tmp_path / "flametap-ring")
    theirs = real(tmp_path / "flametap-ring", os.O_RDWR)
    monkeypatch.setattr(os, "open", watched)
    with pytest.raises(AttachFailedError, match="no memfd"):
        taken(theirs)
    assert opened
    assert all(flags & os.O_PATH for flags in opened)
    os.close(theirs)


@pytest.mark.parametrize("fd", [4000, -1])
def test_descriptor_that_is_not_there_says_so(fd: int) -> None:
    with pytest.raises(AttachFailedError, match="cannot be opened"):
        taken(fd)
