"""Read a source file that debug information names, if it exists here.

A hostile program may name any file. So we open only regular files, by absolute path, below the
process's root, with its user's rights, up to a maximum size, and show only text.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import NamedTuple

from ..object.object_file import ObjectError
from .open_file import OURS, OpenFile, Root

MAX_SOURCE_BYTES = 16 << 20  # sqlite3.c has 9 MB
MAX_LINE_CHARS = 400


class SourceText(NamedTuple):
    """A source file's lines, and a note about them."""

    lines: list[str] | None  # None if the file cannot be read
    note: str = ""


def read_source(path: str, roots: Sequence[Root], built_ns: int = 0) -> SourceText:
    """Read a source file.

    Args:
        path: the path in the debug information.
        roots: where the path may be valid, most likely first: the root of the process, with the
            rights of its user.
        built_ns: time at which the program was built (Unix, nanoseconds), to detect a newer source
            file; 0 if unknown.
    """
    if not path:
        return SourceText(None, "the source file is not known")
    if not path.startswith("/"):
        return SourceText(None, f"only the relative path {path} is known: not looked for")
    problems = []
    for root in roots:
        where = "on this machine" if root == OURS else "in the process's root"
        try:
            text, modified_ns = _read(path, root, MAX_SOURCE_BYTES)
        except FileNotFoundError:
            problems.append(f"no such file {where}")
        except OSError as error:
            problems.append(f"{(error.strerror or str(error)).lower()} ({where})")
        except ValueError as error:  # ObjectError, a NUL in the path, or not text
            problems.append(f"{error} ({where})")
        else:
            note = ""
            if built_ns and modified_ns > built_ns:
                note = "the file is newer than the program: line numbers may be wrong"
            return SourceText(lines_of(text), note)
    reason = "; ".join(problems) or "the process's root is not known"
    return SourceText(None, f"{path} cannot be shown: {reason}")


def source_bytes(path: str, roots: Sequence[Root], max_bytes: int) -> bytes | None:
    """Return a source file as it is; None if it cannot be read, is too large, or is not text.

    Args:
        path: an absolute path.
        roots: see ``read_source``.
        max_bytes: of a file that is read.
    """
    for root in roots if path.startswith("/") else ():
        with contextlib.suppress(OSError, ValueError):
            return _read(path, root, max_bytes)[0]
    return None


def _read(path: str, root: Root, max_bytes: int) -> tuple[bytes, int]:
    file = OpenFile(path, root)
    try:
        if file.size > max_bytes:
            raise ObjectError(f"larger than {max_bytes >> 20} MiB")
        # A file in procfs has size 0 and may return endless text or block, so it is not read.
        data = file.read(0, file.size) if file.size else b""
        if b"\0" in data:
            raise ObjectError("not a text file")
        return data, file.modified_ns
    finally:
        file.close()


def lines_of(data: bytes) -> list[str]:
    """Return the lines of a text, each cut to ``MAX_LINE_CHARS``."""
    text = data.decode("utf-8", "replace").replace("\r\n", "\n")
    lines = text.split("\n")
    return [line[:MAX_LINE_CHARS] for line in lines]
