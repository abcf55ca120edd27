"""Writing profiles to files: which formats there are, and a file that is whole or not there."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import BinaryIO

from ..errors import OutputError, UsageError
from ..model import Clock
from ..profile.store import Profile
from ..symbols.names.table import SymbolTable
from . import folded, speedscope
from .request import ExportRequest

STDOUT = "-"


@dataclass(frozen=True)
class Format:
    """A way to write a profile. ``write`` streams; it holds no second copy of the profile."""

    extensions: tuple[str, ...]  # lower case, with the dot
    write: Callable[[ExportRequest, BinaryIO], None]


FORMATS: dict[str, Format] = {
    "folded": Format((".folded", ".collapsed"), folded.write),
    "speedscope": Format((".speedscope.json", ".speedscope"), speedscope.write),
}


def format_for(path: str, explicit: str | None = None) -> str:
    """The name of the format of an output: the one asked for, else the one its name ends in.

    Standard output is folded unless something else is asked for.

    Raises:
        UsageError: there is no such format, or the name does not tell.
    """
    known = "; ".join(f"{name} ({', '.join(f.extensions)})" for name, f in FORMATS.items())
    if explicit is not None:
        if explicit not in FORMATS:
            raise UsageError(f"unknown format {explicit}", f"formats are {known}")
        return explicit
    if path == STDOUT:
        return "folded"
    for name, entry in FORMATS.items():
        if path.lower().endswith(entry.extensions):
            return name
    raise UsageError(
        f"the name of {path} does not tell its format", f"say it with -f; formats are {known}"
    )


def write_file(
    path: str,
    format_name: str,
    profile: Profile,
    table: SymbolTable,
    *,
    clock: Clock = Clock.CPU,
    thread_ids: frozenset[int] | None = None,
    by_thread: bool = False,
    unit: str = "time",
    title: str = "flametap",
    notes: Sequence[str] = (),
    cost: Mapping[str, int | float | str] | None = None,
) -> None:
    """Write a profile with the names that are known now.

    The file is written next to its place and renamed, so it is whole or not there; pipes and
    devices are written to directly.

    Args:
        path: where to; "-" is standard output.
        format_name: a key of :data:`FORMATS`.
        profile: what was recorded.
        table: the names.
        clock: what weights count.
        thread_ids: only these; all when None.
        by_thread: a root frame per thread, where the format does not tell threads apart by itself.
        unit: "time", or "samples" for numbers of stacks.
        title: what the profile is of, where the format has room.
        notes: what was lost and what cannot be trusted, one line each, where the format has room.
        cost: what the recording cost the process (``Certificate.as_json``), where the format has
            room.

    Raises:
        OutputError: it cannot be written.
    """
    request = ExportRequest(
        profile, table, clock, thread_ids, by_thread, unit, title, notes, cost or {}
    )
    write = FORMATS[format_name].write
    try:
        if path == STDOUT:
            write(request, sys.stdout.buffer)
            sys.stdout.buffer.flush()
        elif _is_special(path):
            with open(path, "wb") as file:
                write(request, file)
        else:
            _write_and_rename(os.path.realpath(path), lambda file: write(request, file))
    except OSError as error:
        where = "standard output" if path == STDOUT else path
        raise OutputError(
            f"cannot write {where}: {error.strerror or error}", "choose another place with -o"
        ) from error


def _is_special(path: str) -> bool:
    try:
        return not stat.S_ISREG(os.stat(path).st_mode)
    except FileNotFoundError:
        return False


def _write_and_rename(path: str, write: Callable[[BinaryIO], None]) -> None:
    folder, name = os.path.split(path)
    # Opened by hand rather than by tempfile, which would make the file ours alone to read.
    temporary = os.path.join(folder, f".{name[:200]}.{os.getpid()}.part")
    try:
        with open(temporary, "wb") as file:
            write(file)
        os.replace(temporary, path)
    except BaseException:
        if os.path.lexists(temporary):
            os.unlink(temporary)
        raise
