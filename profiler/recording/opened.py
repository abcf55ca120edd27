"""Open the file of a recording."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from ..errors import InputError, OutputError
from .chunks import MAGIC, ChunkReader
from .kept_code import CODE, TEXT, KeptCode
from .reader import load
from .recording import Process, Recording
from .revision import Revision

# Files up to this size are read into memory, in a second.
STORED_BYTES = 128 << 20


def is_recording(path: str) -> bool:
    """Tell whether a file begins as a recording does.

    Raises:
        InputError: it cannot be read.
    """
    with readable(path) as file:
        return file.read(len(MAGIC)) == MAGIC


def check_recording(path: str) -> None:
    """Check that a file is a recording that can be read, by its first bytes.

    Raises:
        InputError: it is not, or cannot be opened.
    """
    with readable(path) as file:
        ChunkReader(file, path)


def open_recording(path: str) -> Recording:
    """Open the file of a recording.

    Raises:
        InputError: it cannot be read, is no recording, or nothing of it makes sense.
    """
    with readable(path) as file:
        return _opened(file, path)


@contextlib.contextmanager
def readable(path: str) -> Iterator[BinaryIO]:
    """Yield a file that is open for reading. Raises InputError if it cannot be read."""
    try:
        with Path(path).open("rb") as file:
            yield file
    except OSError as error:
        raise InputError(
            f"cannot read {path}: {error.strerror or error}",
            "name a recording that 'flametap record -o NAME.flametap' has made",
        ) from error


def same_file(path: str, other: str) -> bool:
    """Return True if two names are of one file that exists."""
    try:
        return os.path.samefile(path, other)
    except OSError:
        return False


def _opened(file: BinaryIO, path: str) -> Recording:
    is_long = os.fstat(file.fileno()).st_size > STORED_BYTES
    loaded = load(file, path, (CODE, TEXT), stored=is_long)
    status = loaded.status
    code = KeptCode(loaded.others, loaded.table, status.symbols)
    if code.damage:
        status.notes.append(f"source texts are missing, as the file is damaged: {code.damage}")
    process = Process(loaded.profile, loaded.table, code)
    found = Recording(process, lambda: status, Revision(lambda: status.revision), loaded.meta)
    whole = os.path.abspath(path)
    was = os.fstat(file.fileno())
    found.copy_to = lambda copy: _copy(whole, was, copy)
    return found


def _copy(path: str, was: os.stat_result, to: BinaryIO) -> None:
    with open(path, "rb") as file:
        now = os.fstat(file.fileno())
        if not os.path.samestat(was, now) or now.st_size < was.st_size:
            raise OutputError(f"{path} is another file by now", "open it again")
        shutil.copyfileobj(file, to)
