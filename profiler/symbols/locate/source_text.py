"""The text of a source file that debug information names, if it can be read here.

A program says which files it was made from, and a hostile one may say anything: only regular files
are opened, by absolute path, up to a size; what is no text is not shown.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ..object.object_file import ObjectError
from .open_file import OpenFile

MAX_SOURCE_BYTES = 16 << 20  # sqlite3.c has 9 MB
MAX_LINE_CHARS = 400


class SourceText(NamedTuple):
    """A source file's lines, and what there is to say about them."""

    lines: list[str] | None  # None: not to be had
    note: str = ""


def read_source(path: str, roots: Sequence[str], built_ns: int = 0) -> SourceText:
    """Read a source file.

    Args:
        path: as the debug information names it.
        roots: prefixes that may give it a meaning, the likeliest first; ``""`` for ours.
        built_ns: when the program was built, to tell that the file was changed since; 0: unknown.
    """
    if not path:
        return SourceText(None, "the source file is not known")
    if not path.startswith("/"):
        return SourceText(None, f"only the relative path {path} is known: not looked for")
    problems = []
    for root in roots:
        where = "in the process's root" if root else "on this machine"
        try:
            text, modified_ns = _read(path, root)
        except FileNotFoundError:
            problems.append(f"no such file {where}")
        except OSError as error:
            problems.append(f"{(error.strerror or str(error)).lower()} ({where})")
        except ValueError as error:  # ObjectError, a NUL in the path, or no text
            problems.append(f"{error} ({where})")
        else:
            note = ""
            if built_ns and modified_ns > built_ns:
                note = "the file is newer than the program: lines may be off"
            return SourceText(_lines(text), note)
    return SourceText(None, f"{path} cannot be shown: {'; '.join(problems)}")


def _read(path: str, root: str) -> tuple[bytes, int]:
    file = OpenFile(path, root)
    try:
        if file.size > MAX_SOURCE_BYTES:
            raise ObjectError(f"larger than {MAX_SOURCE_BYTES >> 20} MiB")
        # Files of procfs say 0 and give endless text, or wait for some: not read.
        data = file.read(0, file.size) if file.size else b""
        if b"\0" in data:
            raise ObjectError("no text")
        return data, file.modified_ns
    finally:
        file.close()


def _lines(data: bytes) -> list[str]:
    text = data.decode("utf-8", "replace").replace("\r\n", "\n")
    lines = text.split("\n")
    return [line[:MAX_LINE_CHARS] for line in lines]
