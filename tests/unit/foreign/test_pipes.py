"""Pipes are opened as files are, though they can be read only once."""

from __future__ import annotations

import gzip
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from flametap.errors import InputError
from flametap.foreign.opening import check_file, open_file
from flametap.recording import opened
from foreign_files import stacks
from foreign_text import kept, read


@contextmanager
def piped(data: bytes) -> Iterator[str]:
    """Yield the name of a pipe that has this in it."""
    reader, writer = os.pipe()

    def write() -> None:
        try:
            with open(writer, "wb") as file:
                file.write(data)
        except BrokenPipeError:
            pass

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield f"/dev/fd/{reader}"
    finally:
        os.close(reader)
        thread.join()


def recording(path: Path) -> bytes:
    with path.open("wb") as file:
        copy_to = read("main;f 3\n").copy_to
        assert copy_to is not None
        copy_to(file)
    return path.read_bytes()


@pytest.mark.parametrize(
    "make",
    [lambda _: b"main;f 3\n", lambda _: gzip.compress(b"main;f 3\n"), recording],
    ids=["text", "gzip", "recording"],
)
def test_pipe_is_opened(tmp_path: Path, make: Callable[[Path], bytes]) -> None:
    data = make(tmp_path / "first")
    with piped(data) as path:
        check_file(path)
        found = open_file(path)
    assert stacks(found) == {("main", "f"): 3}
    copy = tmp_path / "copy"
    with copy.open("wb") as file:
        assert found.copy_to is not None
        found.copy_to(file)
    assert stacks(open_file(str(copy))) == {("main", "f"): 3}


def test_what_cannot_be_opened_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with piped(kept("perf.data")) as path, pytest.raises(InputError, match=r"is a perf\.data"):
        open_file(path)
    monkeypatch.setattr(opened, "MAX_PIPE_BYTES", 1 << 10)
    with piped(b"main;f 3\n" * 1000) as path, pytest.raises(InputError, match="no regular file"):
        open_file(path)
