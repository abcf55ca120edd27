"""Tell who may write a file, from its owner and its mode.

What we make of a file and keep is kept apart by this. A file may change while it is read, and its
symbols may come from further files beside it. Both are in the hands of those who may write, so what
they plant reaches nobody but themselves.

Source: inode(7).
"""

from __future__ import annotations

import os
import stat

from .open_file import OpenFile


def writers(file: OpenFile) -> str:
    """Return a word for the users who may write a file; ``""`` if anybody may.

    The word is the user's id; for a file that a group may write, the group's id follows. Root may
    write every file.

    Raises:
        OSError: the file is closed.
    """
    status = os.fstat(file.fileno())
    if status.st_mode & stat.S_IWOTH:
        return ""
    group = f":{status.st_gid}" if status.st_mode & stat.S_IWGRP else ""
    return f"{status.st_uid}{group}"


def identity(file: OpenFile) -> str:
    """Return a word that no other file has as long as this one exists.

    Raises:
        OSError: the file is closed.
    """
    status = os.fstat(file.fileno())
    return f"{status.st_dev:x}:{status.st_ino:x}"
