"""Open the file of a recording."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import BinaryIO

from ..errors import InputError
from .kept_code import CODE, TEXT, KeptCode
from .reader import load
from .recording import Process, Recording
from .revision import Revision

# Files up to this size are read into memory, in a second.
STORED_BYTES = 128 << 20


def open_recording(path: str) -> Recording:
    """Open the file of a recording.

    Raises:
        InputError: it cannot be read, is no recording, or nothing of it makes sense.
    """
    try:
        with Path(path).open("rb") as file:
            return _opened(file, path)
    except OSError as error:
        raise InputError(
            f"cannot read {path}: {error.strerror or error}",
            "name a recording that 'flametap record -o NAME.flametap' has made",
        ) from error


def _opened(file: BinaryIO, path: str) -> Recording:
    is_long = os.fstat(file.fileno()).st_size > STORED_BYTES
    loaded = load(file, path, (CODE, TEXT), stored=is_long)
    status = loaded.status
    try:
        code = KeptCode(loaded.others, loaded.table, status.symbols)
    except ValueError as error:
        raise InputError(f"{path} is damaged: {error}", "record again") from error
    process = Process(loaded.profile, loaded.table, code)
    found = Recording(process, lambda: status, Revision(lambda: status.revision), loaded.meta)
    whole = os.path.abspath(path)
    found.copy_to = lambda copy: _copy(whole, copy)
    return found


def _copy(path: str, to: BinaryIO) -> None:
    with open(path, "rb") as file:
        shutil.copyfileobj(file, to)
