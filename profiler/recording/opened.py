"""Open the file of a recording."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import tempfile
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from ..errors import InputError, OutputError
from .chunks import MAGIC
from .kept_code import CODE, TEXT, KeptCode
from .reader import load
from .recording import Recording
from .revision import Revision

# Files up to this size are read into memory, in a second.
STORED_BYTES = 128 << 20
MAX_PIPE_BYTES = 1 << 30  # of what is no regular file: it is copied, so that it can be sought
_PIECE = 1 << 20


def is_recording(file: BinaryIO) -> bool:
    """Tell whether a file begins as a recording does; it stays at its start."""
    start = file.read(len(MAGIC))
    file.seek(0)
    return start == MAGIC


def open_recording(path: str) -> Recording:
    """Open the file of a recording.

    Raises:
        InputError: it cannot be read, is no recording, or nothing of it makes sense.
    """
    with readable(path) as file:
        return recording_in(file, path)


@contextlib.contextmanager
def readable(path: str) -> Iterator[BinaryIO]:
    """Yield a file that is open for reading, at its start: of a pipe, a copy.

    Raises:
        InputError: it cannot be read.
    """
    try:
        with Path(path).open("rb") as file:
            if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                yield file
                return
            with tempfile.TemporaryFile() as copy:
                _copy_pipe(file, path, copy)
                yield copy
    except OSError as error:
        raise InputError(
            f"cannot read {path}: {error.strerror or error}",
            "name a recording that 'flametap record -o NAME.flametap' has made",
        ) from error


def is_pipe(path: str) -> bool:
    """Tell whether it can be read only once."""
    return Path(path).is_fifo()


def same_file(path: str, other: str) -> bool:
    """Return True if two names are of one file that exists."""
    try:
        return os.path.samefile(path, other)
    except OSError:
        return False


def _copy_pipe(file: BinaryIO, path: str, copy: BinaryIO) -> None:
    size = 0
    while piece := file.read(_PIECE):
        size += len(piece)
        if size > MAX_PIPE_BYTES:
            raise InputError(
                f"{path} has more than {MAX_PIPE_BYTES >> 30} GiB, and is no regular file",
                "write it into a file first",
            )
        copy.write(piece)
    copy.seek(0)


def recording_in(file: BinaryIO, path: str) -> Recording:
    """Open the recording in a file that ``readable`` has opened. Raises InputError, or OSError."""
    was, is_copy = os.fstat(file.fileno()), not os.path.isfile(path)
    is_long = was.st_size > STORED_BYTES and not is_copy
    loaded = load(file, path, (CODE, TEXT), stored=is_long)
    status = loaded.status
    code = KeptCode(loaded.others, loaded.table.functions, status.symbols)
    if code.damage:
        status.notes.append(f"source texts are missing, as the file is damaged: {code.damage}")
    changes = Revision(lambda: status.revision)
    found = Recording(loaded.profile, loaded.table, lambda: status, changes, loaded.meta, code)
    if is_copy:
        kept = os.fdopen(os.dup(file.fileno()), "rb")
        weakref.finalize(found, kept.close)
        found.copy_to = lambda copy: _copy_all(kept, copy)
    else:
        whole = os.path.abspath(path)
        found.copy_to = lambda copy: _copy(whole, was, copy)
    return found


def _copy_all(file: BinaryIO, to: BinaryIO) -> None:
    file.seek(0)
    shutil.copyfileobj(file, to)


def _copy(path: str, was: os.stat_result, to: BinaryIO) -> None:
    with open(path, "rb") as file:
        now = os.fstat(file.fileno())
        if not os.path.samestat(was, now) or now.st_size < was.st_size:
            raise OutputError(f"{path} is another file by now", "open it again")
        shutil.copyfileobj(file, to)
