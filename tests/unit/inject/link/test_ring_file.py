"""What the target hands out as the ring: only a sealed memfd of the right size is taken."""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from flametap.errors import AttachFailedError
from flametap.inject.link import ring_file
from flametap.linux import descriptors


def memfd(*, size_bytes: int = ring_file.FILE_BYTES, seals: int = ring_file.SEALS) -> int:
    fd = os.memfd_create("flametap-ring", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(fd, size_bytes)
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, seals)
    return fd


def read_only() -> int:
    return os.open(f"/proc/self/fd/{memfd()}", os.O_RDONLY | os.O_CLOEXEC)


FOREIGN: dict[str, tuple[Callable[[], int], str]] = {
    "device": (lambda: os.open("/dev/null", os.O_RDWR), "not sealed|no memfd"),
    "pipe": (lambda: os.pipe()[1], "cannot be written|no memfd"),
    "folder": (lambda: os.open("/", os.O_RDONLY), "cannot be written|no memfd"),
    "path": (lambda: os.open("/dev/null", os.O_PATH), "cannot be written|no memfd"),
    "unsealed": (lambda: memfd(seals=0), "not sealed"),
    "half sealed": (lambda: memfd(seals=fcntl.F_SEAL_SHRINK), "not sealed"),
    "too long": (lambda: memfd(size_bytes=1 << 36), "68719476736 bytes"),
    "too short": (lambda: memfd(size_bytes=4096), "4096 bytes"),
}


@pytest.fixture(params=["pidfd", "proc"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """With pidfd_getfd, and as on a kernel without it."""

    def missing(pid: int, fd: int) -> int:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))

    if request.param == "proc":
        monkeypatch.setattr(descriptors, "duplicate", missing)
    return str(request.param)


def test_ring_is_taken_and_mapped(way: str) -> None:
    theirs = memfd()
    ours = ring_file.take(os.getpid(), theirs)
    mapping = ring_file.mapped(ours)
    mapping[:5] = b"hello"
    assert os.pread(theirs, 5, 0) == b"hello"
    assert not os.get_inheritable(ours)
    mapping.close()
    os.close(ours)
    os.close(theirs)


@pytest.mark.parametrize("name", FOREIGN)
def test_any_other_file_is_refused(name: str, way: str) -> None:
    make, why = FOREIGN[name]
    theirs = make()
    with pytest.raises(AttachFailedError, match=f"another file .*({why})") as raised:
        ring_file.take(os.getpid(), theirs)
    assert raised.value.hint
    os.close(theirs)


def test_ring_that_may_not_be_written_is_refused() -> None:
    with pytest.raises(AttachFailedError, match="cannot be written"):
        ring_file.take(os.getpid(), read_only())


def test_without_pidfd_nothing_but_a_memfd_is_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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
        ring_file._open(os.getpid(), theirs)
    assert all(flags & os.O_PATH for flags in opened)


def test_descriptor_that_is_not_there_says_so(way: str) -> None:
    with pytest.raises(AttachFailedError, match="cannot be opened"):
        ring_file.take(os.getpid(), 4000)
